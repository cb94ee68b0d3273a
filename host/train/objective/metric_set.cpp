// SPDX-License-Identifier: Apache-2.0
#include "host/train/objective/metric_set.hpp"

#include "host/text/formatted.hpp"
#include "host/text/metric_name.hpp"

#include <ATen/core/Tensor.h>

#include <span>

namespace tenon {
namespace {

constexpr uint32_t kMetricSetVersion = 1;

struct Period {
  uint32_t bit;
  const char* suffix;
  const char* name;
};
constexpr Period kPeriods[] = {{TENON_PERIOD_STEP, "", "step"},
                               {TENON_PERIOD_WINDOW, "/window", "window"},
                               {TENON_PERIOD_RUN, "/run", "run"}};

std::string metric_text(const NamedMetric& metric) {
  return "metric '" + metric.name + "' (" + metric.proxy.instance().type() + ")";
}

std::vector<std::string> metric_names(const NamedMetric& metric) {
  const auto& metrics = metric.proxy.info().metrics;
  if (metrics.size() == 1) {
    return {metric.name};
  }
  std::vector<std::string> names;
  for (const std::string& name : metrics) {
    names.push_back(metric.name + "/" + name);
  }
  return names;
}

// Returns the values that rank 0 computes, on all ranks.
std::vector<double> metrics_of(MetricState& state,
                               const tenon_exec& exec,
                               size_t num_metrics,
                               Group& ranks) {
  std::vector<double> metrics(num_metrics, 0.0);
  if (ranks.rank() == 0) {
    metrics = state.compute(exec);
  }
  if (ranks.size() > 1) {
    ranks.all_reduce(std::span(metrics), Reduce::kSum, "values of a metric");
  }
  return metrics;
}

}  // namespace

struct MetricSet::Entry {
  Entry(NamedMetric named, const ExecBase& base, InputBinding bound)
      : metric(std::move(named)),
        frame(metric.proxy.instance().host(), base),
        binding(std::move(bound)),
        names(metric_names(metric)),
        evaluation(metric.proxy),
        recent(metric.proxy) {
    for (const Period& period : kPeriods) {
      if ((metric.proxy.info().periods & period.bit) != 0) {
        stretches.push_back({period, MetricState(metric.proxy)});
      }
    }
  }

  const tenon_exec& exec_at(const CallPoint& point) {
    frame.move_to(point);
    return frame.exec();
  }

  struct Stretch {
    Period period;
    MetricState state;
  };

  NamedMetric metric;
  ExecFrame frame;
  InputBinding binding;
  std::vector<std::string> names;  // of the metrics
  MetricState evaluation;
  MetricState recent;  // of training, not yet merged into the stretches
  std::vector<Stretch> stretches;
  // By series of evaluations; merged over all ranks, so equal on all ranks.
  std::map<std::string, MetricState> series;
};

MetricSet::MetricSet(std::vector<NamedMetric> metrics,
                     const ModelGraph& graph,
                     const std::string& model_name,
                     const ExecBase& base)
    : compute_dtype_(base.compute_dtype) {
  for (NamedMetric& metric : metrics) {
    InputBinding binding({PortOwner::Kind::kMetric, metric_text(metric)},
                         metric.proxy.info().ports,
                         metric.inputs,
                         graph,
                         model_name);
    for (const std::string& name : metric.proxy.info().metrics) {
      if (!is_legal_metric_name(name)) {
        metric.proxy.instance().identity().fail_result(
            "the metric \"" + name + "\" has an invalid name; use 1 to 100 of A-Z a-z 0-9 _ / . -");
      }
    }
    entries_.push_back(std::make_unique<Entry>(std::move(metric), base, std::move(binding)));
    const Entry& entry = *entries_.back();
    for (const auto& stretch : entry.stretches) {
      for (const std::string& name : entry.names) {
        training_metrics_.push_back(name + stretch.period.suffix);
      }
    }
  }
}

MetricSet::~MetricSet() = default;

std::vector<std::string> MetricSet::evaluation_metrics() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) {
    names.insert(names.end(), entry->names.begin(), entry->names.end());
  }
  return names;
}

std::vector<uint32_t> MetricSet::values_read() const {
  std::vector<uint32_t> values;
  for (const auto& entry : entries_) {
    const std::vector<uint32_t> of_metric = entry->binding.values();
    values.insert(values.end(), of_metric.begin(), of_metric.end());
  }
  return values;
}

void MetricSet::check_fields(const std::vector<FieldInfo>& fields,
                             const std::string& dataset) const {
  for (const auto& entry : entries_) {
    entry->binding.check_fields(fields, dataset);
  }
}

void MetricSet::take(Entry& entry,
                     MetricState& state,
                     const MicrobatchState& values,
                     const Batch& batch,
                     const CallPoint& point) {
  const DividedSequences* const divided = values.divided();
  const BoundInputs inputs = entry.binding.gather(&values,
                                                  batch,
                                                  InputBinding::Outputs::kDetached,
                                                  compute_dtype_,
                                                  {.sequences = divided, .units = values.tensor()});
  if (divided != nullptr && !divided->group->is_first()) {
    return;
  }
  at::Device device = at::kCPU;
  for (const at::Tensor& input : inputs.tensors()) {
    if (input.defined()) {
      device = input.device();
      break;
    }
  }
  state.update(entry.exec_at(point), inputs.handles(), inputs.size(), device);
}

// ---- evaluation ----

void MetricSet::begin_evaluation() {
  for (const auto& entry : entries_) {
    entry->evaluation.reset();
  }
}

void MetricSet::evaluate(const MicrobatchState& values,
                         const Batch& batch,
                         const CallPoint& point) {
  for (const auto& entry : entries_) {
    take(*entry, entry->evaluation, values, batch, point);
  }
}

MetricSet::Metrics MetricSet::end_evaluation(Group& ranks,
                                             const CallPoint& point,
                                             const std::string& series) {
  Metrics metrics;
  for (const auto& entry : entries_) {
    const tenon_exec& exec = entry->exec_at(point);
    const auto tell = [&](MetricState& state, const char* suffix) {
      const auto values = metrics_of(state, exec, entry->names.size(), ranks);
      for (size_t i = 0; i < values.size(); ++i) {
        metrics.emplace_back(entry->names[i] + suffix, values[i]);
      }
    };
    entry->evaluation.merge_ranks(exec, ranks);
    tell(entry->evaluation, "");
    if (!series.empty()) {
      MetricState& all = entry->series.try_emplace(series, entry->metric.proxy).first->second;
      all.merge(exec, entry->evaluation);
      tell(all, "/run");
    }
    entry->evaluation.reset();
  }
  return metrics;
}

void MetricSet::drop_evaluation() {
  for (const auto& entry : entries_) {
    entry->evaluation.reset();
  }
}

// ---- training ----

// One update per microbatch serves all stretches: `recent` is merged into them before they are read
// or end.
void MetricSet::pass_on(Entry& entry, const CallPoint& point) {
  for (auto& stretch : entry.stretches) {
    stretch.state.merge(entry.exec_at(point), entry.recent);
  }
  entry.recent.reset();
}

void MetricSet::begin_window(const CallPoint& point) {
  for (const auto& entry : entries_) {
    pass_on(*entry, point);
    for (auto& stretch : entry->stretches) {
      if (stretch.period.bit == TENON_PERIOD_WINDOW) {
        stretch.state.reset();
      }
    }
  }
}

void MetricSet::train(const MicrobatchState& values, const Batch& batch, const CallPoint& point) {
  for (const auto& entry : entries_) {
    if (!entry->stretches.empty()) {
      take(*entry, entry->recent, values, batch, point);
    }
  }
}

MetricSet::Metrics MetricSet::close_record(Group& ranks, const CallPoint& point) {
  Metrics metrics;
  for (const auto& entry : entries_) {
    pass_on(*entry, point);
    const tenon_exec& exec = entry->exec_at(point);
    for (auto& stretch : entry->stretches) {
      MetricState merged(entry->metric.proxy);  // this rank's own state continues
      merged.merge(exec, stretch.state);
      merged.merge_ranks(exec, ranks);
      const auto values = metrics_of(merged, exec, entry->names.size(), ranks);
      for (size_t i = 0; i < values.size(); ++i) {
        metrics.emplace_back(entry->names[i] + stretch.period.suffix, values[i]);
      }
      if (stretch.period.bit == TENON_PERIOD_STEP) {
        stretch.state.reset();
      }
    }
  }
  return metrics;
}

void MetricSet::snapshot(StateTree& tree, const std::string& prefix) const {
  tree.set_version(prefix, kMetricSetVersion);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = *entries_[i];
    const std::string at = state_path(prefix, std::to_string(i));
    tree.put_bytes(state_path(at, "name"), entry.metric.name);
    entry.recent.snapshot(tree, state_path(at, "recent"));
    for (const auto& stretch : entry.stretches) {
      stretch.state.snapshot(tree, state_path(at, stretch.period.name));
    }
    size_t number = 0;
    for (const auto& [name, state] : entry.series) {
      const std::string series = state_path(at, formatted("series/{}", number++));
      tree.put_bytes(state_path(series, "name"), name, TENON_STATE_PER_RANK);
      state.snapshot(tree, state_path(series, "state"));
    }
  }
}

std::optional<size_t> MetricSet::saved_index(const StateTree& tree,
                                             const std::string& prefix,
                                             size_t i) const {
  for (size_t then = 0;; ++then) {
    const std::string name = state_path(state_path(prefix, std::to_string(then)), "name");
    if (tree.find(name) == nullptr) {
      return std::nullopt;
    }
    if (tree.get_bytes(name) == entries_[i]->metric.name) {
      return then;
    }
  }
}

void MetricSet::load(const StateTree& tree, const std::string& prefix) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = *entries_[i];
    const auto index = saved_index(tree, prefix, i);
    if (!index.has_value()) {
      entry.recent.reset();
      for (auto& stretch : entry.stretches) {
        stretch.state.reset();
      }
      entry.series.clear();
      continue;
    }
    const std::string at = state_path(prefix, std::to_string(*index));
    entry.recent.load(tree, state_path(at, "recent"));
    for (auto& stretch : entry.stretches) {
      stretch.state.load(tree, state_path(at, stretch.period.name));
    }
    entry.series.clear();
    for (size_t number = 0;; ++number) {
      const std::string series = state_path(at, formatted("series/{}", number));
      if (tree.find(state_path(series, "name")) == nullptr) {
        break;
      }
      MetricState state(entry.metric.proxy);
      state.load(tree, state_path(series, "state"));
      entry.series.emplace(tree.get_bytes(state_path(series, "name")), std::move(state));
    }
  }
}

}  // namespace tenon
