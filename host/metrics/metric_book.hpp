// SPDX-License-Identifier: Apache-2.0
//
// Collects the metrics of a run between two records: weighted means, which accumulate, and values,
// which are set. Only mean(), share() and close() wait for metrics that are still on a device.
// Invariant: the metrics of a record are in the order in which their names were first used; metrics
// that only other ranks have come last.
// Threads: the train thread only.
#pragma once

#include "host/distributed/collectives/group.hpp"
#include "host/journal/metric_record.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon {

// Checks the name of a metric that a plugin adds.
// Errors  metrics.bad_name if it is the name of one of the host's own metrics
void check_plugin_metric(std::string_view name);

class MetricBook final : public Stateful {
 public:
  // When the scalars of add_tensor() are read. kAtOnce: CPU tensors immediately, tensors on a
  // device when a metric is needed. kTogether: all of them when a metric is needed.
  enum class Reading { kAtOnce, kTogether };
  explicit MetricBook(Reading reading = Reading::kAtOnce) : reading_(reading) {}

  // Adds a sum and a weight to a metric, whose value is the quotient of the totals.
  // Errors  metrics.bad_name
  void add(std::string_view name, double sum, double weight);
  // The same with scalars that a device may still be computing.
  void add_tensor(std::string_view name, const at::Tensor& sum, const at::Tensor& weight);
  // Which value share() keeps if several ranks set a metric: that of the first rank, or the
  // largest.
  enum class OfRanks { kFirst, kLargest };
  // Sets a metric of the next record; a later value replaces it.
  void set(std::string_view name, double value, OfRanks of_ranks = OfRanks::kFirst);

  // Returns the last recorded value of a metric, or nothing.
  std::optional<double> last(std::string_view name) const;

  // Returns the present quotient of a metric, or 0 if it has no weight. Waits for the device.
  double mean(std::string_view name);

  // Merges the metrics since the last record whose names begin with `prefix` over all ranks: adds
  // up sums and weights by name, in rank order. Call at most once before `close`. A collective
  // call; ranks may have different metrics.
  // Errors  distributed.failed
  void share(Group& ranks, std::string_view prefix = "");

  // Returns the metrics since the last record whose names begin with `prefix`, and resets them.
  // Skips metrics without weight.
  MetricRecord close(uint64_t step, std::string_view prefix = "");

  // Saves the metrics since the last record, and the last recorded values. Does not wait for a
  // device.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  struct Metric {
    std::string name;
    bool is_used = false;
    bool is_value = false;
    OfRanks of_ranks = OfRanks::kFirst;
    double sum = 0;
    double weight = 0;
    at::Tensor tensor_sum;  // f64
    at::Tensor tensor_weight;
    std::optional<double> last;
  };
  Metric& metric(std::string_view name);
  void read_tensors();
  std::string to_text(std::string_view prefix) const;
  void take_text(const std::string& text);

  Reading reading_;
  std::vector<Metric> metrics_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace tenon
