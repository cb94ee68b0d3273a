/* SPDX-License-Identifier: Apache-2.0
 *
 * A good plugin in plain C, without libtorch: the loss `half_square`, with a gradient of its own,
 * and the hook `step_counter`, which has state. */
#include <tenon/hook.h>
#include <tenon/log.h>
#include <tenon/loss.h>
#include <tenon/options.h>
#include <tenon/plugin.h>
#include <tenon/state.h>

#include <stdlib.h>
#include <string.h>

#define RETURN_IF_FAILED(call)     \
  do {                             \
    tenon_status* failed = (call); \
    if (failed != NULL)            \
      return failed;               \
  } while (0)

static const tenon_status_api* statuses;
static const tenon_options_api* options;
static const tenon_log_api* logs;

static tenon_status* fail(
    const tenon_host* host, uint32_t code, const char* id, const char* text, int line) {
  return statuses->make(host, code, id, text, __FILE__, line);
}

/* ---- half_square: scale / 2 * (output - target)^2, summed over all elements ---- */

typedef struct half_square {
  double scale;
  const tenon_op* sub;
  const tenon_op* mul;
  const tenon_op* mul_scalar;
  const tenon_op* sum;
} half_square;

static tenon_status* half_square_create(const tenon_host* host,
                                        const tenon_create_args* args,
                                        void** out_self) {
  double scale = 0.0;
  RETURN_IF_FAILED(options->get_double(args->options, "/scale", &scale));
  if (scale == 13.0) {
    return fail(host, TENON_INVALID, "zoo.unlucky", "a scale of 13 brings bad luck", __LINE__);
  }
  half_square* self = calloc(1, sizeof(*self));
  if (self == NULL) {
    return fail(host, TENON_OUT_OF_MEMORY, "zoo.memory", "no room for a loss", __LINE__);
  }
  self->scale = scale;
  *out_self = self;
  return NULL;
}

static void half_square_destroy(void* self) {
  free(self);
}

static tenon_status* half_square_describe(void* self, tenon_loss_info* out) {
  static const tenon_port ports[] = {
      {.struct_size = sizeof(tenon_port), .name = "output", .dtype = TENON_CLASS_FLOAT},
      {.struct_size = sizeof(tenon_port), .name = "target", .dtype = TENON_CLASS_FLOAT},
  };
  (void)self;
  out->additive_over = TENON_ADDITIVE_SAMPLES;
  out->ports_ref = ports;
  out->num_ports = 2;
  return NULL;
}

/* An operator on two values whose one result is a tensor. */
static tenon_status* call2(const tenon_exec* exec,
                           const tenon_op** op,
                           const char* name,
                           tenon_any a,
                           tenon_any b,
                           size_t num_args,
                           tenon_tensor** out_own) {
  if (*op == NULL) {
    RETURN_IF_FAILED(exec->ops->find(exec->host, name, op));
  }
  const tenon_any args[2] = {a, b};
  tenon_any result;
  size_t num_results = 1;
  RETURN_IF_FAILED(exec->ops->call(exec->host, *op, args, num_args, &result, &num_results));
  *out_own = result.v.tensor;
  return NULL;
}

static tenon_any of_tensor(const tenon_tensor* tensor) {
  tenon_any any = {.tag = TENON_ANY_TENSOR};
  any.v.tensor = (tenon_tensor*)tensor;
  return any;
}

static tenon_any of_double(double value) {
  tenon_any any = {.tag = TENON_ANY_DOUBLE};
  any.v.d = value;
  return any;
}

static tenon_status* check_shapes(const tenon_exec* exec, const tenon_tensor* const* inputs) {
  tenon_tensor_info output = {.struct_size = sizeof(output)};
  tenon_tensor_info target = {.struct_size = sizeof(target)};
  RETURN_IF_FAILED(exec->tensors->info(inputs[0], &output));
  RETURN_IF_FAILED(exec->tensors->info(inputs[1], &target));
  if (output.ndim != target.ndim ||
      memcmp(output.shape_ref, target.shape_ref, output.ndim * sizeof(int64_t)) != 0) {
    return fail(
        exec->host, TENON_INVALID, "zoo.shapes", "output and target differ in shape", __LINE__);
  }
  return NULL;
}

static tenon_status* half_square_count(void* self,
                                       const tenon_exec* exec,
                                       tenon_loss_count_args* args) {
  tenon_tensor_info target = {.struct_size = sizeof(target)};
  (void)self;
  RETURN_IF_FAILED(exec->tensors->info(args->inputs[1], &target));
  return exec->tensors->full(
      exec->host, TENON_F64, exec->device, 0, NULL, (double)target.numel, &args->out_count_own);
}

static tenon_status* difference(half_square* self,
                                const tenon_exec* exec,
                                const tenon_tensor* const* inputs,
                                tenon_tensor** out_own) {
  return call2(
      exec, &self->sub, "aten::sub.Tensor", of_tensor(inputs[0]), of_tensor(inputs[1]), 2, out_own);
}

static tenon_status* half_square_compute(void* opaque,
                                         const tenon_exec* exec,
                                         tenon_loss_compute_args* args) {
  half_square* self = opaque;
  tenon_tensor* delta = NULL;
  tenon_tensor* square = NULL;
  tenon_tensor* sum = NULL;
  RETURN_IF_FAILED(check_shapes(exec, args->inputs));
  tenon_status* failed = difference(self, exec, args->inputs, &delta);
  if (failed == NULL) {
    failed =
        call2(exec, &self->mul, "aten::mul.Tensor", of_tensor(delta), of_tensor(delta), 2, &square);
  }
  if (failed == NULL) {
    failed = call2(exec, &self->sum, "aten::sum", of_tensor(square), of_double(0), 1, &sum);
  }
  if (failed == NULL) {
    failed = call2(exec,
                   &self->mul_scalar,
                   "aten::mul.Scalar",
                   of_tensor(sum),
                   of_double(0.5 * self->scale),
                   2,
                   &args->out_sum_own);
  }
  exec->tensors->release(sum);
  exec->tensors->release(square);
  exec->tensors->release(delta);
  return failed;
}

static tenon_status* half_square_backward(void* opaque,
                                          const tenon_exec* exec,
                                          const tenon_loss_backward_args* args) {
  half_square* self = opaque;
  tenon_tensor* delta = NULL;
  tenon_tensor* scaled = NULL;
  tenon_status* failed = difference(self, exec, args->inputs, &delta);
  if (failed == NULL) {
    failed = call2(exec,
                   &self->mul_scalar,
                   "aten::mul.Scalar",
                   of_tensor(delta),
                   of_double(self->scale),
                   2,
                   &scaled);
  }
  if (failed == NULL) {
    failed = call2(exec,
                   &self->mul,
                   "aten::mul.Tensor",
                   of_tensor(scaled),
                   of_tensor(args->grad_sum),
                   2,
                   &args->grad_inputs_own[0]);
  }
  exec->tensors->release(scaled);
  exec->tensors->release(delta);
  return failed; /* no gradient for the target */
}

static const tenon_loss half_square_table = {.struct_size = sizeof(tenon_loss),
                                             .describe = half_square_describe,
                                             .count = half_square_count,
                                             .compute = half_square_compute,
                                             .backward = half_square_backward};

static const tenon_component half_square_component = {
    .struct_size = sizeof(tenon_component),
    .kind = "loss",
    .type = "half_square",
    .interface_id = TENON_LOSS_ID,
    .table = &half_square_table,
    .summary = "half the squared difference, in plain C",
    .options_schema =
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": "
        "{\"scale\": {\"type\": \"number\", \"default\": 1.0}}}",
    .create = half_square_create,
    .destroy = half_square_destroy};

/* ---- step_counter: counts steps, and keeps the count ---- */

typedef struct step_counter {
  const tenon_host* host;
  int64_t num_steps;
} step_counter;

static tenon_status* step_counter_create(const tenon_host* host,
                                         const tenon_create_args* args,
                                         void** out_self) {
  (void)args;
  step_counter* self = calloc(1, sizeof(*self));
  if (self == NULL) {
    return fail(host, TENON_OUT_OF_MEMORY, "zoo.memory", "no room for a hook", __LINE__);
  }
  self->host = host;
  *out_self = self;
  return NULL;
}

static void step_counter_destroy(void* self) {
  free(self);
}

static tenon_status* step_counter_describe(void* self, tenon_hook_info* out) {
  (void)self;
  out->events = TENON_EVENT_BIT(TENON_EVENT_AFTER_STEP) | TENON_EVENT_BIT(TENON_EVENT_END);
  return NULL;
}

static tenon_status* step_counter_on_event(void* opaque, const tenon_event* event) {
  step_counter* self = opaque;
  if (event->id == TENON_EVENT_AFTER_STEP) {
    ++self->num_steps;
  } else {
    logs->write(self->host, TENON_LOG_DEBUG, "the counted run is over");
  }
  return NULL;
}

static uint32_t step_counter_version(void* self) {
  (void)self;
  return 1;
}

static tenon_status* step_counter_snapshot(void* opaque, tenon_state_writer* writer) {
  step_counter* self = opaque;
  return writer->put_int(writer, "num_steps", self->num_steps, TENON_STATE_REPLICATED);
}

static tenon_status* step_counter_load(void* opaque, tenon_state_reader* reader) {
  step_counter* self = opaque;
  if (reader->version != 1) {
    return fail(
        self->host, TENON_UNSUPPORTED, "zoo.version", "only version 1 can be read", __LINE__);
  }
  return reader->get_int(reader, "num_steps", &self->num_steps);
}

static const void* step_counter_extension(void* self, const char* id) {
  static const tenon_stateful stateful = {.struct_size = sizeof(tenon_stateful),
                                          .version = step_counter_version,
                                          .snapshot = step_counter_snapshot,
                                          .load = step_counter_load};
  (void)self;
  return strcmp(id, TENON_STATEFUL_ID) == 0 ? &stateful : NULL;
}

static const tenon_hook step_counter_table = {.struct_size = sizeof(tenon_hook),
                                              .describe = step_counter_describe,
                                              .on_event = step_counter_on_event};

static const tenon_component step_counter_component = {
    .struct_size = sizeof(tenon_component),
    .kind = "hook",
    .type = "step_counter",
    .interface_id = TENON_HOOK_ID,
    .table = &step_counter_table,
    .summary = "counts steps",
    .options_schema = "{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": false}",
    .create = step_counter_create,
    .destroy = step_counter_destroy,
    .get_extension = step_counter_extension};

static void forget_services(void) {
  statuses = NULL;
  options = NULL;
  logs = NULL;
}

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  statuses = args->host->get_interface(args->host, TENON_STATUS_ID);
  options = args->host->get_interface(args->host, TENON_OPTIONS_ID);
  logs = args->host->get_interface(args->host, TENON_LOG_ID);
  args->out_abi_minor = TENON_ABI_MINOR;
  args->out_shutdown = forget_services;
  RETURN_IF_FAILED(args->register_component(args->registrar, &half_square_component));
  return args->register_component(args->registrar, &step_counter_component);
}
