/* SPDX-License-Identifier: Apache-2.0
 *
 * Records what a hook can see of a step: an output of the model, parameters and gradients, learning
 * rates and the loss of the step. It counts its events and keeps the count in checkpoints. */
#include "museum.h"

enum { kEvents };              /* of museum.counts */
enum { kLogits, kNumNumbers }; /* of museum.numbers */

static tenon_status* describe(void* self, tenon_hook_info* out) {
  (void)self;
  out->events = TENON_EVENT_BIT(TENON_EVENT_AFTER_FORWARD) |
                TENON_EVENT_BIT(TENON_EVENT_BEFORE_OPTIMIZER_STEP) |
                TENON_EVENT_BIT(TENON_EVENT_AFTER_STEP);
  out->phase = TENON_PHASE_AFTER;
  out->reads = TENON_TOUCH_PARAMETERS | TENON_TOUCH_GRADIENTS | TENON_TOUCH_LOSS;
  out->full_parameters = 1;
  return NULL;
}

/* Adds the sum of the squares of a tensor to *io_sum. */
static tenon_status* add_squares(museum* self,
                                 const tenon_exec* exec,
                                 const tenon_tensor* tensor,
                                 double* io_sum) {
  const float* data = NULL;
  MUSEUM_TRY(museum_data(self, exec, tensor, TENON_F32, &data));
  for (int64_t i = 0; i < self->info.numel; ++i) {
    *io_sum += (double)data[i] * (double)data[i];
  }
  return NULL;
}

static tenon_status* record_parameters(museum* self, const tenon_event* event) {
  const tenon_parameter_view empty = {.struct_size = sizeof(tenon_parameter_view)};
  double values = 0;
  double grads = 0;
  double numel = 0;
  size_t n = 0;
  MUSEUM_TRY(event->api->get_num_parameters(event->run, &n));
  MUSEUM_TRY(museum_keep(self, 0, &empty, sizeof empty));
  tenon_parameter_view* const view = self->guarded[0];
  for (size_t i = 0; i < n; ++i) {
    MUSEUM_TRY(event->api->get_parameter(event->run, i, view));
    MUSEUM_TRY(add_squares(self, event->exec, view->value_ref, &values));
    if (view->grad_ref != NULL) {
      MUSEUM_TRY(add_squares(self, event->exec, view->grad_ref, &grads));
    }
    numel += (double)view->numel;
  }
  MUSEUM_TRY(event->api->add_metric(event->run, "museum_hook/parameters", values));
  MUSEUM_TRY(event->api->add_metric(event->run, "museum_hook/gradients", grads));
  return event->api->add_metric(event->run, "museum_hook/elements", numel);
}

static tenon_status* record_step(museum* self, const tenon_event* event) {
  const tenon_lr_group empty = {.struct_size = sizeof(tenon_lr_group)};
  double loss = 0;
  double rates = 0;
  double decay = 0;
  size_t n = 0;
  MUSEUM_TRY(event->api->get_num_lr_groups(event->run, &n));
  MUSEUM_TRY(museum_keep(self, 1, &empty, sizeof empty));
  tenon_lr_group* const group = self->guarded[1];
  for (size_t i = 0; i < n; ++i) {
    MUSEUM_TRY(event->api->get_lr_group(event->run, i, group));
    MUSEUM_TRY(event->api->get_lr_group_option(event->run, i, "/weight_decay", &decay));
    rates += group->rate + group->base_rate * decay;
  }
  MUSEUM_TRY(event->api->get_step_loss(event->run, &loss));
  MUSEUM_TRY(event->api->add_metric(event->run, "museum_hook/loss", loss));
  MUSEUM_TRY(event->api->add_metric(event->run, "museum_hook/rates", rates));
  /* Of the host's headers. */
  MUSEUM_TRY(
      event->api->add_metric(event->run, "museum_hook/event_size", (double)event->struct_size));
  MUSEUM_TRY(event->api->add_metric(event->run, "museum_hook/logits", self->numbers[kLogits]));
  return event->api->add_metric(event->run, "museum_hook/events", (double)self->counts[kEvents]);
}

static tenon_status* on_event(void* opaque, const tenon_event* event) {
  museum* const self = opaque;
  if (!event->is_train) {
    return NULL;
  }
  ++self->counts[kEvents];
  if (event->id == TENON_EVENT_AFTER_FORWARD) {
    const tenon_tensor* logits = NULL;
    self->numbers[kLogits] = 0;
    MUSEUM_TRY(event->api->get_output(event->run, "logits", &logits));
    return add_squares(self, event->exec, logits, &self->numbers[kLogits]);
  }
  return event->id == TENON_EVENT_AFTER_STEP ? record_step(self, event)
                                             : record_parameters(self, event);
}

static uint32_t version(void* self) {
  (void)self;
  return 1;
}

static tenon_status* snapshot(void* opaque, tenon_state_writer* writer) {
  const museum* const self = opaque;
  MUSEUM_TRY(writer->put_bytes(writer, "note", "events", 6, TENON_STATE_REPLICATED));
  return writer->put_int(writer, "events", self->counts[kEvents], TENON_STATE_REPLICATED);
}

static tenon_status* load(void* opaque, tenon_state_reader* reader) {
  museum* const self = opaque;
  size_t n = 0;
  MUSEUM_TRY(reader->get_num_entries(reader, &n));
  for (size_t i = 0; i < n; ++i) {
    const char* name = NULL;
    uint32_t type = 0;
    MUSEUM_TRY(reader->get_entry(reader, i, &name, &type));
    if (type == TENON_STATE_INT && strcmp(name, "events") == 0) {
      MUSEUM_TRY(reader->get_int(reader, name, &self->counts[kEvents]));
    }
  }
  return reader->version == 1 ? NULL : MUSEUM_FAIL(self, TENON_UNSUPPORTED, "another version");
}

static const void* get_extension(void* self, const char* id) {
  static const tenon_stateful stateful = {.struct_size = sizeof(tenon_stateful),
                                          .version = version,
                                          .snapshot = snapshot,
                                          .load = load};
  static void* guarded;
  (void)self;
  if (guarded == NULL) {
    guarded = museum_guard(&stateful, sizeof stateful);
  }
  return strcmp(id, TENON_STATEFUL_ID) == 0 ? guarded : NULL;
}

static const tenon_hook table = {
    .struct_size = sizeof table, .describe = describe, .on_event = on_event};

static const tenon_component component = {.struct_size = sizeof component,
                                          .kind = "hook",
                                          .type = "museum_hook",
                                          .interface_id = TENON_HOOK_ID,
                                          .table = &table,
                                          .summary = "records what a hook can see of a step",
                                          .options_schema = MUSEUM_NO_OPTIONS,
                                          .create = museum_create,
                                          .destroy = museum_destroy,
                                          .get_extension = get_extension};

MUSEUM_PLUGIN("hook", "hook:museum_hook", component);
