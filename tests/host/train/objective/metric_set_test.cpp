// SPDX-License-Identifier: Apache-2.0
#include "host/train/objective/metric_set.hpp"

#include <tenon/metric.h>

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

// The sum of what the model gives.
struct TotalMetric {
  uint32_t periods = 0;

  static tenon_status* describe(void* self, tenon_metric_info* out) {
    static const tenon_port port = {sizeof(tenon_port), "v1", TENON_CLASS_ANY, 0, nullptr, 0};
    static const tenon_metric_state_spec state = {
        sizeof(tenon_metric_state_spec), "total", nullptr, 0, TENON_F64, TENON_REDUCE_SUM, 0};
    static const char* const metric = "total";
    out->periods = static_cast<TotalMetric*>(self)->periods;
    out->ports_ref = &port;
    out->num_ports = 1;
    out->states_ref = &state;
    out->num_states = 1;
    out->metrics_ref = &metric;
    out->num_metrics = 1;
    return nullptr;
  }
  static tenon_status* update(void*, const tenon_exec*, const tenon_metric_update_args* args) {
    tensor_of(args->states[0]).add_(tensor_of(args->inputs[0]).sum());
    return nullptr;
  }
  static tenon_status* compute(void*, const tenon_exec*, const tenon_metric_compute_args* args) {
    args->out_values[0] = tensor_of(args->states[0]).item<double>();
    return nullptr;
  }
  MetricProxy proxy() {
    static const tenon_metric table = {
        sizeof(tenon_metric), &describe, &update, nullptr, &compute, nullptr};
    return MetricProxy(made_instance("metric", TENON_METRIC_ID, &table, this));
  }
};

struct MetricRig {
  explicit MetricRig(uint32_t periods = 0) : total{periods} {
    run.allocate();
    std::vector<NamedMetric> named;
    named.push_back({"total", {}, total.proxy()});
    metrics.emplace(std::move(named), run.plan.model.graph, "made", RunRig::base());
  }

  // Takes one batch of these samples; each counts twice, since the weight is 2.
  void take(const std::vector<int64_t>& samples, bool is_train) {
    Batch batch;
    batch.schema = sample_schema();
    batch.fields = {at::tensor(samples)};
    batch.samples = static_cast<int64_t>(samples.size());
    const CallPoint point{1, 0, is_train};
    run.model->runner.forward(run.model->state(), batch, point);
    if (is_train) {
      metrics->train(run.model->state(), batch, point);
    } else {
      metrics->evaluate(run.model->state(), batch, point);
    }
    run.model->runner.clear(run.model->state());
  }
  MetricSet::Metrics evaluation(const std::vector<int64_t>& samples,
                                const std::string& series = "") {
    metrics->begin_evaluation();
    take(samples, false);
    return metrics->end_evaluation(run.ranks.tokens(), {1, 0, false}, series);
  }

  RunRig run;
  TotalMetric total;
  std::optional<MetricSet> metrics;
};

using Metrics = MetricSet::Metrics;

}  // namespace

TEST_CASE("an evaluation starts from nothing; a series adds up", "[train]") {
  MetricRig rig;
  CHECK_FALSE(rig.metrics->is_empty());
  CHECK_FALSE(rig.metrics->has_training());
  CHECK(rig.evaluation({1, 2}) == Metrics{{"total", 6}});
  CHECK(rig.evaluation({3}) == Metrics{{"total", 6}});
  CHECK(rig.evaluation({1}, "next/") == Metrics{{"total", 2}, {"total/run", 2}});
  CHECK(rig.evaluation({2}, "next/") == Metrics{{"total", 4}, {"total/run", 6}});
  rig.metrics->begin_evaluation();
  rig.take({9}, false);
  rig.metrics->drop_evaluation();
  CHECK(rig.evaluation({1}) == Metrics{{"total", 2}});
}

TEST_CASE("training counts over records, windows and the run", "[train]") {
  MetricRig rig(TENON_PERIOD_STEP | TENON_PERIOD_WINDOW | TENON_PERIOD_RUN);
  CHECK(rig.metrics->has_training());
  CHECK(rig.metrics->training_metrics() ==
        std::vector<std::string>{"total", "total/window", "total/run"});
  const CallPoint point{1, 0, true};
  rig.metrics->begin_window(point);
  rig.take({1}, true);
  CHECK(rig.metrics->close_record(rig.run.ranks.tokens(), point) ==
        Metrics{{"total", 2}, {"total/window", 2}, {"total/run", 2}});
  rig.take({2}, true);
  CHECK(rig.metrics->close_record(rig.run.ranks.tokens(), point) ==
        Metrics{{"total", 4}, {"total/window", 6}, {"total/run", 6}});
  rig.metrics->begin_window(point);
  rig.take({3}, true);
  CHECK(rig.metrics->close_record(rig.run.ranks.tokens(), point) ==
        Metrics{{"total", 6}, {"total/window", 6}, {"total/run", 12}});
}

TEST_CASE("what metrics have gathered is saved by name", "[train]") {
  constexpr uint32_t kPeriods = TENON_PERIOD_STEP | TENON_PERIOD_RUN;
  const CallPoint point{1, 0, true};
  MetricRig before(kPeriods);
  before.metrics->begin_window(point);
  before.take({4}, true);
  StateTree tree;
  before.metrics->snapshot(tree, "metrics");
  CHECK(tree.get_bytes("metrics/0/name") == "total");
  MetricRig after(kPeriods);
  CHECK(after.metrics->saved_index(tree, "metrics", 0) == size_t{0});
  after.metrics->load(tree, "metrics");
  after.take({1}, true);
  CHECK(after.metrics->close_record(after.run.ranks.tokens(), point) ==
        Metrics{{"total", 10}, {"total/run", 10}});
  CHECK_FALSE(after.metrics->saved_index(StateTree(), "metrics", 0).has_value());
}

}  // namespace tenon
