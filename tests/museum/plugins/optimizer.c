/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient descent with momentum, in loops over the elements. */
#include "museum.h"

static tenon_status* create(const tenon_host* host,
                            const tenon_create_args* args,
                            void** out_self) {
  void* opaque = NULL;
  MUSEUM_TRY(museum_create(host, args, &opaque));
  museum* const self = opaque;
  tenon_status* status = self->options->get_double(args->options, "/momentum", &self->numbers[0]);
  if (status == NULL) {
    status = self->options->get_double(args->options, "/weight_decay", &self->numbers[1]);
  }
  if (status != NULL) {
    museum_destroy(self);
    return status;
  }
  *out_self = self;
  return NULL;
}

static tenon_status* describe(void* self, tenon_optimizer_info* out) {
  const tenon_slot_spec slots[] = {{.struct_size = sizeof(tenon_slot_spec),
                                    .name = "momentum",
                                    .shape = TENON_SLOT_LIKE_PARAMETER,
                                    .dtype = TENON_CLASS_PARAM},
                                   {.struct_size = sizeof(tenon_slot_spec),
                                    .name = "scale",
                                    .shape = TENON_SLOT_SCALAR,
                                    .dtype = TENON_F32,
                                    .init = 1}};
  MUSEUM_TRY(museum_keep(self, 0, slots, sizeof slots));
  out->needs = TENON_OPTIMIZER_ELEMENTWISE;
  out->slots_ref = ((museum*)self)->guarded[0];
  out->num_slots = 2;
  return NULL;
}

static tenon_status* update(void* opaque, const tenon_exec* exec, const tenon_update_args* args) {
  museum* const self = opaque;
  const size_t n = args->num_pieces;
  double lr = 0;
  double found_inf = 0;
  MUSEUM_TRY(exec->tensors->item(self->host, args->lr, &lr));
  if (args->found_inf != NULL) {
    MUSEUM_TRY(exec->tensors->item(self->host, args->found_inf, &found_inf));
  }
  for (size_t i = 0; found_inf == 0 && i < n; ++i) {
    float* value = NULL;
    float* momentum = NULL;
    float* scale = NULL;
    const float* grad = NULL;
    double step = 0;
    MUSEUM_TRY(museum_data(self, exec, args->parameters[i], TENON_F32, &value));
    MUSEUM_TRY(museum_data(self, exec, args->grads[i], TENON_F32, &grad));
    MUSEUM_TRY(museum_data(self, exec, args->slots[i], TENON_F32, &momentum));
    const int64_t numel = self->info.numel;
    MUSEUM_TRY(museum_data(self, exec, args->slots[n + i], TENON_F32, &scale));
    MUSEUM_TRY(exec->tensors->item(self->host, args->steps[i], &step));
    *scale = (float)(1.0 / (1.0 + 0.01 * step)); /* shrinks the steps a little */
    for (int64_t k = 0; k < numel; ++k) {
      const float decayed = grad[k] + (float)self->numbers[1] * value[k];
      momentum[k] = (float)self->numbers[0] * momentum[k] + decayed;
      value[k] -= (float)lr * *scale * momentum[k];
    }
  }
  return NULL;
}

static const tenon_optimizer table = {
    .struct_size = sizeof table, .describe = describe, .update = update};

static const tenon_component component = {
    .struct_size = sizeof component,
    .kind = "optimizer",
    .type = "museum_momentum",
    .interface_id = TENON_OPTIMIZER_ID,
    .table = &table,
    .summary = "gradient descent with momentum",
    .options_schema =
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": "
        "{\"lr\": {\"type\": \"number\", \"default\": 0.1}, "
        "\"momentum\": {\"type\": \"number\", \"default\": 0.5}, "
        "\"weight_decay\": {\"type\": \"number\", \"default\": 0}}}",
    .create = create,
    .destroy = museum_destroy};

MUSEUM_PLUGIN("optimizer", "optimizer:museum_momentum", component);
