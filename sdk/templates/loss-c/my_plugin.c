/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax cross-entropy in plain C, with raw pointers and a hand-written gradient; it uses neither
 * libtorch nor C++.
 *
 *     sum over labels other than -100 of  log(sum_v exp(logits[v])) - logits[label]
 *
 * Shapes   logits [..., V] f32, labels [...] i64 */
#include <tenon/tenon.h>

#include <math.h>
#include <stdlib.h>

enum { kIgnored = -100 };

typedef struct MyPlugin {
  const tenon_host* host;
  const tenon_status_api* status;
  const tenon_tensor_api* tensors;
} MyPlugin;

/* The inputs of one call, borrowed. */
typedef struct Inputs {
  const float* logits;   /* [rows, V] */
  const int64_t* labels; /* [rows] */
  int64_t rows;
  int64_t classes; /* V */
} Inputs;

static tenon_status* fail(const MyPlugin* loss, uint32_t code, const char* message, int line) {
  return loss->status->make(loss->host, code, "my_plugin.input", message, __FILE__, line);
}

static tenon_status* read_labels(const MyPlugin* loss, const tenon_tensor* labels, Inputs* out) {
  tenon_tensor_info info = {.struct_size = sizeof info};
  tenon_status* status = loss->tensors->info(labels, &info);
  if (status != NULL) {
    return status;
  }
  if (info.dtype != TENON_I64 || info.device.type != TENON_CPU || !info.is_contiguous) {
    return fail(loss, TENON_UNSUPPORTED, "labels must be contiguous i64 on the CPU", __LINE__);
  }
  out->labels = info.data;
  out->rows = info.numel;
  return NULL;
}

static tenon_status* read_inputs(const MyPlugin* loss,
                                 const tenon_tensor* const* inputs,
                                 Inputs* out) {
  tenon_status* status = read_labels(loss, inputs[1], out);
  tenon_tensor_info info = {.struct_size = sizeof info};
  if (status == NULL) {
    status = loss->tensors->info(inputs[0], &info);
  }
  if (status != NULL) {
    return status;
  }
  if (info.dtype != TENON_F32 || info.device.type != TENON_CPU || !info.is_contiguous ||
      info.ndim == 0) {
    return fail(loss, TENON_UNSUPPORTED, "logits must be contiguous f32 on the CPU", __LINE__);
  }
  out->logits = info.data;
  out->classes = info.shape_ref[info.ndim - 1];
  if (out->rows * out->classes != info.numel) {
    return fail(
        loss, TENON_INVALID, "logits must have one row of classes for each label", __LINE__);
  }
  for (int64_t i = 0; i < out->rows; ++i) {
    if (out->labels[i] != kIgnored && (out->labels[i] < 0 || out->labels[i] >= out->classes)) {
      return fail(loss, TENON_INVALID, "a label is neither a class index nor -100", __LINE__);
    }
  }
  return NULL;
}

/* Computes the logarithm of the sum of exponentials of a row, without overflow. */
static double log_sum_exp(const float* row, int64_t n) {
  double largest = row[0];
  for (int64_t v = 1; v < n; ++v) {
    largest = row[v] > largest ? row[v] : largest;
  }
  double sum = 0;
  for (int64_t v = 0; v < n; ++v) {
    sum += exp(row[v] - largest);
  }
  return largest + log(sum);
}

static tenon_status* describe(void* self, tenon_loss_info* out) {
  static const tenon_port ports[] = {{sizeof(tenon_port), "logits", TENON_F32, 0, NULL, 0},
                                     {sizeof(tenon_port), "labels", TENON_I64, 0, NULL, 0}};
  (void)self;
  out->additive_over = TENON_ADDITIVE_TOKENS;
  out->flags = TENON_LOSS_COUNT_FROM_BATCH;
  out->ports_ref = ports;
  out->num_ports = 2;
  return NULL;
}

static tenon_status* count(void* self, const tenon_exec* exec, tenon_loss_count_args* args) {
  const MyPlugin* loss = self;
  Inputs in = {0};
  tenon_status* status = read_labels(loss, args->inputs[1], &in);
  if (status != NULL) {
    return status;
  }
  double items = 0;
  for (int64_t i = 0; i < in.rows; ++i) {
    items += in.labels[i] != kIgnored;
  }
  return loss->tensors->full(
      loss->host, TENON_F64, exec->device, 0, NULL, items, &args->out_count_own);
}

static tenon_status* compute(void* self, const tenon_exec* exec, tenon_loss_compute_args* args) {
  const MyPlugin* loss = self;
  Inputs in = {0};
  tenon_status* status = read_inputs(loss, args->inputs, &in);
  if (status != NULL) {
    return status;
  }
  double sum = 0;
  for (int64_t i = 0; i < in.rows; ++i) {
    const float* row = in.logits + i * in.classes;
    if (in.labels[i] != kIgnored) {
      sum += log_sum_exp(row, in.classes) - row[in.labels[i]];
    }
  }
  const uint32_t dtype = exec->compute_dtype == TENON_F64 ? TENON_F64 : TENON_F32;
  return loss->tensors->full(loss->host, dtype, exec->device, 0, NULL, sum, &args->out_sum_own);
}

/* Computes, for each row, softmax(logits) minus 1 at the label, times grad_sum. */
static tenon_status* backward(void* self,
                              const tenon_exec* exec,
                              const tenon_loss_backward_args* args) {
  const MyPlugin* loss = self;
  Inputs in = {0};
  double factor = 0;
  tenon_tensor_info shape = {.struct_size = sizeof shape};
  tenon_tensor_info made = {.struct_size = sizeof made};
  tenon_tensor* grad = NULL;
  tenon_status* status = read_inputs(loss, args->inputs, &in);
  if (status == NULL) {
    status = loss->tensors->item(loss->host, args->grad_sum, &factor);
  }
  if (status == NULL) {
    status = loss->tensors->info(args->inputs[0], &shape);
  }
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
  for (int64_t i = 0; i < in.rows; ++i, out += in.classes) {
    const float* row = in.logits + i * in.classes;
    const double scale = in.labels[i] == kIgnored ? 0 : factor;
    const double total = log_sum_exp(row, in.classes);
    for (int64_t v = 0; v < in.classes; ++v) {
      out[v] = (float)(scale * (exp(row[v] - total) - (v == in.labels[i] ? 1.0 : 0.0)));
    }
  }
  args->grad_inputs_own[0] = grad;
  return NULL;
}

static tenon_status* create(const tenon_host* host,
                            const tenon_create_args* args,
                            void** out_self) {
  (void)args;
  MyPlugin* loss = malloc(sizeof *loss);
  const tenon_status_api* status = host->get_interface(host, TENON_STATUS_ID);
  if (loss == NULL) {
    return status->make(
        host, TENON_OUT_OF_MEMORY, "my_plugin.memory", "out of memory", __FILE__, __LINE__);
  }
  loss->host = host;
  loss->status = status;
  loss->tensors = host->get_interface(host, TENON_TENSOR_ID);
  *out_self = loss;
  return NULL;
}

static void destroy(void* self) {
  free(self);
}

static const tenon_loss table = {sizeof table, describe, count, compute, backward};

static const tenon_component component = {
    .struct_size = sizeof component,
    .kind = "loss",
    .type = "my_plugin",
    .interface_id = TENON_LOSS_ID,
    .table = &table,
    .summary = "Softmax cross-entropy in plain C",
    .options_schema = "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {}}",
    .create = create,
    .destroy = destroy,
    .get_extension = NULL};

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
