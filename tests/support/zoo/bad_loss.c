/* SPDX-License-Identifier: Apache-2.0
 *
 * Two losses: `no_compute` lacks a function that every loss needs; `short` has a table that ends
 * before `backward`, which is legal. */
#include <stddef.h>
#include <stdlib.h>

#include "minimal_loss.h"

static tenon_status* never_called(void* self,
                                  const tenon_exec* exec,
                                  const tenon_loss_backward_args* args) {
  (void)self;
  (void)exec;
  (void)args;
  abort();
}

static tenon_loss no_compute_table;
static tenon_loss short_table;
static tenon_component no_compute = ZOO_LOSS("no_compute");
static tenon_component shorter = ZOO_LOSS("short");

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  no_compute_table = kZooLoss;
  no_compute_table.compute = NULL;
  no_compute.table = &no_compute_table;
  short_table = kZooLoss;
  short_table.struct_size = offsetof(tenon_loss, backward);
  /* What lies behind the end must not be read. */
  short_table.backward = never_called;
  shorter.table = &short_table;
  args->out_abi_minor = TENON_ABI_MINOR;
  tenon_status* failed = args->register_component(args->registrar, &no_compute);
  return failed != NULL ? failed : args->register_component(args->registrar, &shorter);
}
