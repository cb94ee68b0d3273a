/* SPDX-License-Identifier: Apache-2.0
 *
 * A loss in plain C: half the squared error between `logits` and `y`, times an option `scale`, with
 * its own backward. No libtorch, no C++, no wrapper; `tenon_add_plugin()` writes the manifest.
 */
#include <tenon/tenon.h>

#include <stdlib.h>

typedef struct PlainLoss {
  const tenon_host* host;
  const tenon_status_api* status;
  const tenon_tensor_api* tensors;
  double scale;
} PlainLoss;

static const tenon_host* library_host; /* for calls without an instance */

static tenon_status* fail(const PlainLoss* loss, uint32_t code, const char* message, int line) {
  return loss->status->make(loss->host, code, "plain_loss", message, __FILE__, line);
}

static tenon_status* null_argument(int line) {
  const tenon_status_api* status = library_host->get_interface(library_host, TENON_STATUS_ID);
  return status->make(
      library_host, TENON_INVALID, "plain_loss", "an argument is null", __FILE__, line);
}

/* Data pointer of an input, which must be contiguous f32 on the CPU. */
static tenon_status* data_of(const PlainLoss* loss,
                             const tenon_tensor* tensor,
                             const float** out,
                             int64_t* out_numel) {
  tenon_tensor_info info = {.struct_size = sizeof info};
  tenon_status* status = loss->tensors->info(tensor, &info);
  if (status != NULL) {
    return status;
  }
  if (info.dtype != TENON_F32 || info.device.type != TENON_CPU || !info.is_contiguous) {
    return fail(loss, TENON_UNSUPPORTED, "inputs must be contiguous f32 on the CPU", __LINE__);
  }
  *out = info.data;
  *out_numel = info.numel;
  return NULL;
}

static tenon_status* both_inputs(const PlainLoss* loss,
                                 const tenon_tensor* const* inputs,
                                 size_t num_inputs,
                                 const float** logits,
                                 const float** targets,
                                 int64_t* n) {
  if (inputs == NULL || num_inputs != 2 || inputs[0] == NULL || inputs[1] == NULL) {
    return fail(loss, TENON_INVALID, "expected two inputs", __LINE__);
  }
  int64_t num_targets = 0;
  tenon_status* status = data_of(loss, inputs[0], logits, n);
  if (status == NULL) {
    status = data_of(loss, inputs[1], targets, &num_targets);
  }
  if (status == NULL && num_targets != *n) {
    return fail(loss, TENON_INVALID, "logits and y have different numbers of elements", __LINE__);
  }
  return status;
}

static tenon_status* describe(void* self, tenon_loss_info* out) {
  static const tenon_axis axes[] = {{"B", -1}};
  static const tenon_port ports[] = {{sizeof(tenon_port), "logits", TENON_F32, 0, NULL, 0},
                                     {sizeof(tenon_port), "y", TENON_F32, 0, axes, 1}};
  if (self == NULL || out == NULL) {
    return null_argument(__LINE__);
  }
  out->additive_over = TENON_ADDITIVE_SAMPLES;
  out->flags = TENON_LOSS_COUNT_FROM_BATCH;
  out->ports_ref = ports;
  out->num_ports = 2;
  return NULL;
}

static tenon_status* count(void* self, const tenon_exec* exec, tenon_loss_count_args* args) {
  const PlainLoss* loss = self;
  if (loss == NULL || exec == NULL || args == NULL) {
    return null_argument(__LINE__);
  }
  if (args->inputs == NULL || args->num_inputs != 2 || args->inputs[1] == NULL) {
    return fail(loss, TENON_INVALID, "input y is missing", __LINE__);
  }
  tenon_tensor_info info = {.struct_size = sizeof info};
  tenon_status* status = loss->tensors->info(args->inputs[1], &info);
  if (status != NULL) {
    return status;
  }
  return loss->tensors->full(
      loss->host, TENON_F64, exec->device, 0, NULL, (double)info.numel, &args->out_count_own);
}

static tenon_status* compute(void* self, const tenon_exec* exec, tenon_loss_compute_args* args) {
  const PlainLoss* loss = self;
  if (loss == NULL || exec == NULL || args == NULL) {
    return null_argument(__LINE__);
  }
  const float* logits = NULL;
  const float* targets = NULL;
  int64_t n = 0;
  tenon_status* status = both_inputs(loss, args->inputs, args->num_inputs, &logits, &targets, &n);
  if (status != NULL) {
    return status;
  }
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    const double error = (double)logits[i] - (double)targets[i];
    sum += 0.5 * loss->scale * error * error;
  }
  return loss->tensors->full(loss->host, TENON_F32, exec->device, 0, NULL, sum, &args->out_sum_own);
}

static tenon_status* backward(void* self,
                              const tenon_exec* exec,
                              const tenon_loss_backward_args* args) {
  const PlainLoss* loss = self;
  if (loss == NULL || exec == NULL || args == NULL || args->grad_sum == NULL ||
      args->grad_inputs_own == NULL) {
    return null_argument(__LINE__);
  }
  const float* logits = NULL;
  const float* targets = NULL;
  int64_t n = 0;
  double factor = 0.0;
  tenon_status* status = both_inputs(loss, args->inputs, args->num_inputs, &logits, &targets, &n);
  if (status == NULL) {
    status = loss->tensors->item(loss->host, args->grad_sum, &factor);
  }
  if (status != NULL) {
    return status;
  }
  tenon_tensor_info shape = {.struct_size = sizeof shape};
  tenon_tensor_info made = {.struct_size = sizeof made};
  tenon_tensor* grad = NULL;
  status = loss->tensors->info(args->inputs[0], &shape);
  if (status == NULL) {
    status = loss->tensors->empty(
        loss->host, TENON_F32, exec->device, shape.ndim, shape.shape_ref, &grad);
  }
  if (status == NULL) {
    status = loss->tensors->info(grad, &made);
  }
  if (status != NULL) {
    loss->tensors->release(grad);
    return status;
  }
  float* out = made.data;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = (float)(factor * loss->scale * ((double)logits[i] - (double)targets[i]));
  }
  args->grad_inputs_own[0] = grad;
  args->grad_inputs_own[1] = NULL; /* targets have no gradient */
  return NULL;
}

static const tenon_loss table = {sizeof table, describe, count, compute, backward};

static tenon_status* create(const tenon_host* host,
                            const tenon_create_args* args,
                            void** out_self) {
  if (host == NULL || args == NULL || out_self == NULL) {
    return null_argument(__LINE__);
  }
  const tenon_options_api* options = host->get_interface(host, TENON_OPTIONS_ID);
  PlainLoss loss = {.host = host,
                    .status = host->get_interface(host, TENON_STATUS_ID),
                    .tensors = host->get_interface(host, TENON_TENSOR_ID)};
  if (options == NULL || loss.tensors == NULL) {
    return fail(&loss, TENON_UNSUPPORTED, "the host has no options or tensor service", __LINE__);
  }
  tenon_status* status = options->get_double(args->options, "/scale", &loss.scale);
  if (status != NULL) {
    return status;
  }
  PlainLoss* made = malloc(sizeof *made);
  if (made == NULL) {
    return fail(&loss, TENON_OUT_OF_MEMORY, "out of memory", __LINE__);
  }
  *made = loss;
  *out_self = made;
  return NULL;
}

static void destroy(void* self) {
  free(self);
}

static const tenon_component component = {
    .struct_size = sizeof component,
    .kind = "loss",
    .type = "plain_loss",
    .interface_id = TENON_LOSS_ID,
    .table = &table,
    .summary = "test plugin: half the squared error, in plain C",
    .options_schema =
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": "
        "{\"scale\": {\"type\": \"number\", \"default\": 1.0, "
        "\"description\": \"factor of the loss\"}}}",
    .create = create,
    .destroy = destroy,
    .get_extension = NULL};

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  library_host = args->host;
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
