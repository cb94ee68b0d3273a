// SPDX-License-Identifier: Apache-2.0
//
// Metrics averaged over groups of samples, for example per-user AUC or the top k of a query.
#pragma once

#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sample_collector.hpp"

class GroupedMetric : public tenon::TorchMetric {
 public:
  // Value and weight of a group.
  struct Part {
    double value = 0.0;
    double weight = 0.0;  // 0: the group is skipped
  };

  void update(const tenon::Exec&,
              const tenon::TorchInputs& inputs,
              tenon::TorchStates& states) override {
    collector_.take(states,
                    scored_samples(inputs, options_.ignore_index, has_weights_ ? 3 : -1, 2));
  }

  std::vector<double> compute(const tenon::Exec&, const tenon::TorchInputs& states) override {
    const int64_t num_ignored = collector_.num_ignored(states);
    if (num_ignored > 0 && !has_warned_) {
      has_warned_ = true;
      host().log_warn("only the first ",
                      collector_.num_collected(states),
                      " of ",
                      collector_.num_collected(states) + num_ignored,
                      " samples fit in max_bytes; the others are ignored");
    }
    const SampleCollector::Sorted sorted = collector_.sorted(states);
    double sum = 0.0;
    double weight = 0.0;
    if (sorted.is_number) {
      for_each_group(sorted.samples, [&](std::span<const Sample> ascending) {
        const Part part = of_group(ascending);
        sum += part.weight * part.value;
        weight += part.weight;
      });
    }
    return {weight > 0.0 ? sum / weight : std::numeric_limits<double>::quiet_NaN()};
  }

 protected:
  enum class Weights { kNone, kOptional };

  GroupedMetric(const char* name,
                const CollectOptions& options,
                Weights weights,
                const tenon::CreateContext& context)
      : name_(name),
        options_(options),
        has_weights_(weights == Weights::kOptional),
        collector_(options.max_bytes, SampleCollector::Groups::kOne, 0, context.mesh) {}

  void describe_group(tenon::MetricInfo& info, const char* group) const {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_CLASS_ANY)
        .port(group, {}, TENON_CLASS_INTEGER);
    if (has_weights_) {
      info.optional_port("sample_weight", {}, TENON_CLASS_FLOAT);
    }
    collector_.describe(info);
    info.metric(name_).periods(options_.periods());
  }

 private:
  virtual Part of_group(std::span<const Sample> ascending) const = 0;

  const char* name_;
  CollectOptions options_;
  bool has_weights_;
  SampleCollector collector_;
  bool has_warned_ = false;
};

template <class Options>
void bind_group_options(tenon::OptionBinder<Options>& binder) {
  bind_max_bytes(
      binder,
      "memory for samples over all ranks, bytes; samples beyond it are ignored, with a warning");
  bind_label_options(binder);
}
