/* SPDX-License-Identifier: Apache-2.0
 *
 * Accuracy, the largest logit, the mean logit of the labels and the number of samples: one state of
 * each reduction. */
#include "museum.h"

enum { kTotals, kLargest, kScores, kSeen, kNumStates };

static tenon_status* describe(void* self, tenon_metric_info* out) {
  static const char* const metrics[] = {"accuracy", "largest", "score", "seen"};
  static const int64_t one[] = {1};
  static const int64_t two[] = {2};
  static const int64_t none[] = {0};
  const tenon_port ports[] = {
      {.struct_size = sizeof(tenon_port), .name = "logits", .dtype = TENON_F32},
      {.struct_size = sizeof(tenon_port), .name = "labels", .dtype = TENON_I64}};
  const tenon_metric_state_spec states[kNumStates] = {
      {sizeof(tenon_metric_state_spec), "totals", two, 1, TENON_F64, TENON_REDUCE_SUM, 0},
      {sizeof(tenon_metric_state_spec), "largest", one, 1, TENON_F64, TENON_REDUCE_MAX, -1e9},
      {sizeof(tenon_metric_state_spec), "scores", none, 1, TENON_F32, TENON_REDUCE_CONCAT, 0},
      {sizeof(tenon_metric_state_spec), "seen", one, 1, TENON_F64, TENON_REDUCE_OWN, -1}};
  MUSEUM_TRY(museum_keep(self, 0, ports, sizeof ports));
  MUSEUM_TRY(museum_keep(self, 1, states, sizeof states));
  out->periods = TENON_PERIOD_STEP | TENON_PERIOD_RUN;
  out->ports_ref = ((museum*)self)->guarded[0];
  out->num_ports = 2;
  out->states_ref = ((museum*)self)->guarded[1];
  out->num_states = kNumStates;
  out->metrics_ref = metrics;
  out->num_metrics = 4;
  return NULL;
}

static tenon_status* reset(void* opaque,
                           const tenon_exec* exec,
                           const tenon_metric_reset_args* args) {
  double* seen = NULL;
  MUSEUM_TRY(museum_data(opaque, exec, args->states[kSeen], TENON_F64, &seen));
  *seen = 0;
  return NULL;
}

static tenon_status* update(void* opaque,
                            const tenon_exec* exec,
                            const tenon_metric_update_args* args) {
  museum* const self = opaque;
  const float* logits = NULL;
  const int64_t* labels = NULL;
  double* totals = NULL;
  double* largest = NULL;
  double* seen = NULL;
  float* scores = NULL;
  MUSEUM_TRY(museum_data(self, exec, args->inputs[0], TENON_F32, &logits));
  MUSEUM_TRY(museum_data(self, exec, args->states[kTotals], TENON_F64, &totals));
  MUSEUM_TRY(museum_data(self, exec, args->states[kLargest], TENON_F64, &largest));
  MUSEUM_TRY(museum_data(self, exec, args->states[kSeen], TENON_F64, &seen));
  MUSEUM_TRY(museum_data(self, exec, args->inputs[1], TENON_I64, &labels));
  const int64_t rows = self->info.numel;
  MUSEUM_TRY(museum_empty(self, exec, TENON_F32, 1, &rows, &args->appended_own[kScores], &scores));
  for (int64_t i = 0; i < rows; ++i, logits += kClasses) {
    int64_t best = 0;
    for (int64_t v = 0; v < kClasses; ++v) {
      best = logits[v] > logits[best] ? v : best;
    }
    totals[0] += best == labels[i] ? 1.0 : 0.0;
    totals[1] += 1.0;
    *largest = (double)logits[best] > *largest ? (double)logits[best] : *largest;
    scores[i] = logits[labels[i]];
  }
  *seen += (double)rows;
  return NULL;
}

static tenon_status* merge(void* self,
                           const tenon_exec* exec,
                           const tenon_metric_merge_args* args) {
  double* seen = NULL;
  const double* other = NULL;
  MUSEUM_TRY(museum_data(self, exec, args->states[kSeen], TENON_F64, &seen));
  MUSEUM_TRY(museum_data(self, exec, args->others[kSeen], TENON_F64, &other));
  *seen += *other;
  return NULL;
}

static tenon_status* compute(void* opaque,
                             const tenon_exec* exec,
                             const tenon_metric_compute_args* args) {
  museum* const self = opaque;
  const double* totals = NULL;
  const double* largest = NULL;
  const double* seen = NULL;
  const float* scores = NULL;
  double sum = 0;
  MUSEUM_TRY(museum_data(self, exec, args->states[kTotals], TENON_F64, &totals));
  MUSEUM_TRY(museum_data(self, exec, args->states[kLargest], TENON_F64, &largest));
  MUSEUM_TRY(museum_data(self, exec, args->states[kSeen], TENON_F64, &seen));
  MUSEUM_TRY(museum_data(self, exec, args->states[kScores], TENON_F32, &scores));
  for (int64_t i = 0; i < self->info.numel; ++i) {
    sum += (double)scores[i];
  }
  args->out_values[0] = totals[0] / totals[1];
  args->out_values[1] = *largest;
  args->out_values[2] = sum / (double)self->info.numel;
  args->out_values[3] = *seen;
  return NULL;
}

static const tenon_metric table = {.struct_size = sizeof table,
                                   .describe = describe,
                                   .update = update,
                                   .merge = merge,
                                   .compute = compute,
                                   .reset = reset};

static const tenon_component component = {.struct_size = sizeof component,
                                          .kind = "metric",
                                          .type = "museum_metric",
                                          .interface_id = TENON_METRIC_ID,
                                          .table = &table,
                                          .summary = "accuracy, and a state of each reduction",
                                          .options_schema = MUSEUM_NO_OPTIONS,
                                          .create = museum_create,
                                          .destroy = museum_destroy};

MUSEUM_PLUGIN("metric", "metric:museum_metric", component);
