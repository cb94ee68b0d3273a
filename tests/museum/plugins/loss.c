/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax cross-entropy with a hand-written gradient. */
#include "museum.h"

static tenon_status* describe(void* self, tenon_loss_info* out) {
  static const tenon_axis axes[] = {{"B", -1}, {NULL, kClasses}};
  const tenon_port ports[] = {{.struct_size = sizeof(tenon_port),
                               .name = "logits",
                               .dtype = TENON_F32,
                               .axes = axes,
                               .num_axes = 2},
                              {.struct_size = sizeof(tenon_port),
                               .name = "labels",
                               .dtype = TENON_I64,
                               .axes = axes,
                               .num_axes = 1}};
  MUSEUM_TRY(museum_keep(self, 0, ports, sizeof ports));
  out->additive_over = TENON_ADDITIVE_SAMPLES;
  out->flags = TENON_LOSS_COUNT_FROM_BATCH;
  out->ports_ref = ((museum*)self)->guarded[0];
  out->num_ports = 2;
  return NULL;
}

static tenon_status* count(void* opaque, const tenon_exec* exec, tenon_loss_count_args* args) {
  museum* const self = opaque;
  const int64_t* labels = NULL;
  MUSEUM_TRY(museum_data(self, exec, args->inputs[1], TENON_I64, &labels));
  return exec->tensors->full(
      self->host, TENON_F64, exec->device, 0, NULL, (double)self->info.numel, &args->out_count_own);
}

/* Reads both inputs; `out_rows` is their number of samples. */
static tenon_status* read_inputs(museum* self,
                                 const tenon_exec* exec,
                                 const tenon_tensor* const* inputs,
                                 const float** out_logits,
                                 const int64_t** out_labels,
                                 int64_t* out_rows) {
  MUSEUM_TRY(museum_data(self, exec, inputs[0], TENON_F32, out_logits));
  MUSEUM_TRY(museum_data(self, exec, inputs[1], TENON_I64, out_labels));
  *out_rows = self->info.numel;
  return NULL;
}

/* The logarithm of the sum of the exponentials of a row. The logits are small. */
static double log_sum_exp(const float* row) {
  double sum = 0;
  for (int v = 0; v < kClasses; ++v) {
    sum += exp((double)row[v]);
  }
  return log(sum);
}

static tenon_status* compute(void* opaque, const tenon_exec* exec, tenon_loss_compute_args* args) {
  museum* const self = opaque;
  const float* logits = NULL;
  const int64_t* labels = NULL;
  int64_t rows = 0;
  double sum = 0;
  MUSEUM_TRY(read_inputs(self, exec, args->inputs, &logits, &labels, &rows));
  for (int64_t i = 0; i < rows; ++i) {
    sum += log_sum_exp(logits + i * kClasses) - (double)logits[i * kClasses + labels[i]];
  }
  return exec->tensors->full(self->host, TENON_F32, exec->device, 0, NULL, sum, &args->out_sum_own);
}

static tenon_status* backward(void* opaque,
                              const tenon_exec* exec,
                              const tenon_loss_backward_args* args) {
  museum* const self = opaque;
  const float* logits = NULL;
  const int64_t* labels = NULL;
  float* grad = NULL;
  int64_t rows = 0;
  double factor = 0;
  MUSEUM_TRY(read_inputs(self, exec, args->inputs, &logits, &labels, &rows));
  MUSEUM_TRY(exec->tensors->item(self->host, args->grad_sum, &factor));
  const int64_t shape[] = {rows, kClasses};
  MUSEUM_TRY(museum_empty(self, exec, TENON_F32, 2, shape, &args->grad_inputs_own[0], &grad));
  for (int64_t i = 0; i < rows; ++i, logits += kClasses, grad += kClasses) {
    const double total = log_sum_exp(logits);
    for (int64_t v = 0; v < kClasses; ++v) {
      grad[v] = (float)(factor * (exp((double)logits[v] - total) - (v == labels[i] ? 1.0 : 0.0)));
    }
  }
  return NULL;
}

static const tenon_loss table = {.struct_size = sizeof table,
                                 .describe = describe,
                                 .count = count,
                                 .compute = compute,
                                 .backward = backward};

static const tenon_component component = {.struct_size = sizeof component,
                                          .kind = "loss",
                                          .type = "museum_softmax",
                                          .interface_id = TENON_LOSS_ID,
                                          .table = &table,
                                          .summary = "softmax cross-entropy",
                                          .options_schema = MUSEUM_NO_OPTIONS,
                                          .create = museum_create,
                                          .destroy = museum_destroy};

MUSEUM_PLUGIN("loss", "loss:museum_softmax", component);
