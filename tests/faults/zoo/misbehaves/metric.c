/* SPDX-License-Identifier: Apache-2.0
 *
 * A metric that is always 1, and a sink that keeps nothing. */
#include "misbehaves.h"

/* ---- bad_metric ---- */

typedef struct MetricFault {
  const char* name;
  const char* state;
  const char* metric;
  uint32_t code;       /* of compute; 0: it succeeds */
  int appends_garbage; /* in update */
} MetricFault;

static const MetricFault kMetricFaults[] = {
    {"", "rows", "one", 0, 0},
    {"state_with_spaces", "Two Words", "one", 0, 0},
    {"metric_without_name", "rows", "", 0, 0},
    {"fail_in_compute", "rows", "one", TENON_INTERNAL, 0},
    {"append_garbage", "rows", "one", 0, 1},
};

static tenon_status* describe(void* opaque, tenon_metric_info* out) {
  static const tenon_port ports[] = {
      {.struct_size = sizeof(tenon_port), .name = "logits", .dtype = TENON_CLASS_FLOAT}};
  static const int64_t shape[] = {0};
  static tenon_metric_state_spec states[1];
  static const char* metrics[1];
  const MetricFault* fault = ((const Instance*)opaque)->fault;
  states[0] = (tenon_metric_state_spec){.struct_size = sizeof(tenon_metric_state_spec),
                                        .name = fault->state,
                                        .shape = shape,
                                        .ndim = 1,
                                        .dtype = TENON_F32,
                                        .reduce = TENON_REDUCE_CONCAT};
  metrics[0] = fault->metric;
  out->periods = TENON_PERIOD_STEP;
  out->ports_ref = ports;
  out->num_ports = 1;
  out->states_ref = states;
  out->num_states = 1;
  out->metrics_ref = metrics;
  out->num_metrics = 1;
  return NULL;
}

static tenon_status* update(void* opaque,
                            const tenon_exec* exec,
                            const tenon_metric_update_args* args) {
  const MetricFault* fault = ((const Instance*)opaque)->fault;
  if (fault->appends_garbage != 0 && exec->step >= BAD_STEP) {
    args->appended_own[0] = (tenon_tensor*)(uintptr_t)0x5a5a5a5a50;
  }
  return NULL;
}

static tenon_status* compute(void* opaque,
                             const tenon_exec* exec,
                             const tenon_metric_compute_args* args) {
  Instance* self = opaque;
  const MetricFault* fault = self->fault;
  (void)exec;
  args->out_values[0] = 1;
  return fault->code != 0 && ++self->num_calls >= BAD_STEP
             ? fail(self, fault->code, "asked to fail")
             : NULL;
}

static const tenon_metric kMetricTable = {.struct_size = sizeof(tenon_metric),
                                          .describe = describe,
                                          .update = update,
                                          .compute = compute};

DEFINE_CREATE(create_metric, kMetricFaults)

const tenon_component bad_metric_component = COMPONENT(
    "metric", "bad_metric", TENON_METRIC_ID, kMetricTable, create_metric, OPTIONS_SCHEMA(""));

/* ---- bad_sink ---- */

typedef struct SinkFault {
  const char* name;
  uint32_t open_code; /* 0: it succeeds */
  uint32_t write_code;
  int crashes_in_open;
} SinkFault;

static const SinkFault kSinkFaults[] = {{"", 0, 0, 0},
                                        {"fail_in_open", TENON_INTERNAL, 0, 0},
                                        {"fail_in_write", 0, TENON_INTERNAL, 0},
                                        {"crash_in_open", 0, 0, 1}};

static tenon_status* open_sink(void* opaque, const char* run_dir) {
  const Instance* self = opaque;
  const SinkFault* fault = self->fault;
  (void)run_dir;
  if (fault->crashes_in_open != 0) {
    crash();
  }
  return fault->open_code != 0 ? fail(self, fault->open_code, "asked to fail") : NULL;
}

static tenon_status* write_record(void* opaque, const tenon_metric_record* record) {
  const Instance* self = opaque;
  const SinkFault* fault = self->fault;
  return fault->write_code != 0 && record->step >= BAD_STEP
             ? fail(self, fault->write_code, "asked to fail")
             : NULL;
}

static tenon_status* flush_sink(void* self) {
  (void)self;
  return NULL;
}

static const tenon_metric_sink kSinkTable = {.struct_size = sizeof(tenon_metric_sink),
                                             .open = open_sink,
                                             .write = write_record,
                                             .flush = flush_sink};

DEFINE_CREATE(create_sink, kSinkFaults)

const tenon_component bad_sink_component = COMPONENT(
    "metric_sink", "bad_sink", TENON_METRIC_SINK_ID, kSinkTable, create_sink, OPTIONS_SCHEMA(""));
