/* SPDX-License-Identifier: Apache-2.0
 *
 * A loss that does nothing, for plugins whose point is elsewhere. Each includes it once and
 * registers ZOO_LOSS("type"). */
#ifndef TENON_TESTS_ZOO_MINIMAL_LOSS_H
#define TENON_TESTS_ZOO_MINIMAL_LOSS_H

#include <tenon/loss.h>
#include <tenon/plugin.h>

static tenon_status* zoo_create(const tenon_host* host,
                                const tenon_create_args* args,
                                void** out_self) {
  (void)host;
  (void)args;
  *out_self = NULL;
  return NULL;
}

static void zoo_destroy(void* self) {
  (void)self;
}

static tenon_status* zoo_describe(void* self, tenon_loss_info* out) {
  (void)self;
  (void)out;
  return NULL;
}

static tenon_status* zoo_one(const tenon_exec* exec, tenon_tensor** out_own) {
  const tenon_device cpu = {TENON_CPU, -1};
  return exec->tensors->full(exec->host, TENON_F64, cpu, 0, NULL, 1.0, out_own);
}

static tenon_status* zoo_count(void* self, const tenon_exec* exec, tenon_loss_count_args* args) {
  (void)self;
  return zoo_one(exec, &args->out_count_own);
}

static tenon_status* zoo_compute(void* self,
                                 const tenon_exec* exec,
                                 tenon_loss_compute_args* args) {
  (void)self;
  return zoo_one(exec, &args->out_sum_own);
}

static const tenon_loss kZooLoss = {.struct_size = sizeof(tenon_loss),
                                    .describe = zoo_describe,
                                    .count = zoo_count,
                                    .compute = zoo_compute};

#define ZOO_LOSS(name)                                                            \
  {                                                                               \
    .struct_size = sizeof(tenon_component), .kind = "loss", .type = (name),       \
    .interface_id = TENON_LOSS_ID, .table = &kZooLoss, .summary = "does nothing", \
    .options_schema =                                                             \
        "{\"type\": \"object\", \"properties\": {}, "                             \
        "\"additionalProperties\": false}",                                       \
    .create = zoo_create, .destroy = zoo_destroy                                  \
  }

#endif
