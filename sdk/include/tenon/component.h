/* SPDX-License-Identifier: Apache-2.0
 *
 * A component: something a recipe can name by kind and type. A plugin registers one descriptor for
 * each; the host creates any number of instances of it. What an instance can do is the table of its
 * kind (model.h, dataset.h, ...); what it can do beyond that is asked for by id. */
#ifndef TENON_COMPONENT_H
#define TENON_COMPONENT_H

#include "exec.h"
#include "host.h"
#include "options.h"
#include "status.h"

TENON_C_BEGIN

typedef struct tenon_create_args {
  size_t struct_size;
  const tenon_options* options;
  const char* place;      /* JSON pointer of the component in the recipe, "/hooks/0" */
  uint64_t seed;          /* derived from the run's seed and `place` */
  const tenon_mesh* mesh; /* where this rank stands; valid as long as the run */
} tenon_create_args;
TENON_SEAL(tenon_create_args, mesh);

typedef struct tenon_component {
  size_t struct_size;
  const char* kind;           /* "loss" */
  const char* type;           /* "cross_entropy": lower case, digits, '_' */
  const char* interface_id;   /* "tenon.loss/1": what `table` points to */
  const void* table;          /* lives as long as the process, as do all strings here */
  const char* summary;        /* one line for --list-plugins */
  const char* options_schema; /* JSON Schema (draft 7) of an object; every optional key has a
                                 default. "{}" of properties means that there are no options */

  /* Creates an instance.
   * Errors   TENON_INVALID for options that are legal alone but not together, TENON_IO, ...
   * Threads  [main]
   * Owner    the plugin; the host calls `destroy` exactly once. On error nothing is to be destroyed
   * Since    0.1 */
  tenon_status* (*create)(const tenon_host* host, const tenon_create_args* args, void** out_self);
  /* Threads [main], never while another call on the instance is under way */
  void (*destroy)(void* self);

  /* An optional ability of an instance, as a table of functions that take `self`
   * ("tenon.stateful/1"), or null. The pointer itself may be null. Threads [any] */
  const void* (*get_extension)(void* self, const char* id);
} tenon_component;
TENON_SEAL(tenon_component, get_extension);

TENON_C_END
#endif
