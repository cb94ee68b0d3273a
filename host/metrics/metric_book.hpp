// SPDX-License-Identifier: Apache-2.0
//
// The metrics of a run between two records: sums over weights that add up, values that are set.
// Closing a record, and sharing it before that, are the places where metrics that are still on a
// device are waited for.
// Invariant: the metrics of a record stand in the order in which their names were first used; those
// of other ranks alone stand behind them.
// Threads: the train thread alone.
#pragma once

#include "host/distributed/collectives/collective.hpp"
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

struct MetricRecord {
  uint64_t step = 0;
  std::vector<std::pair<std::string, double>> values;
  std::string window = {};  // label of the window that it is from; "" if there is none

  const double* find(std::string_view name) const;
};

// True for names that a metric may have: 1 to 100 of [A-Za-z0-9_/.-].
bool is_legal_metric_name(std::string_view name);

class MetricBook final : public Stateful {
 public:
  // When scalars that are given as tensors are read: at once, if there is nothing to wait for,
  // or all together, when somebody needs a metric.
  enum class Reading { kAtOnce, kTogether };
  explicit MetricBook(Reading reading = Reading::kAtOnce) : reading_(reading) {}

  // Adds sum and weight to a metric: the record shows their quotient.
  // Errors  metrics.bad_name
  void add(std::string_view name, double sum, double weight);
  // The same with scalars that may still be computed.
  void add_tensor(std::string_view name, const at::Tensor& sum, const at::Tensor& weight);
  // Which of several ranks' values a metric has: that of the first rank that set it, or the
  // largest.
  enum class OfRanks { kFirst, kLargest };
  // Sets a metric of the next record; the last value counts.
  void set(std::string_view name, double value, OfRanks of_ranks = OfRanks::kFirst);

  // The last recorded value of a metric.
  std::optional<double> last(std::string_view name) const;

  // The quotient of a metric as it stands; waits for it. 0 if it has no weight.
  double mean(std::string_view name);

  // Makes the metrics since the last record whose names begin with `prefix` those of all ranks, on
  // all ranks: sums and weights are added up in the order of ranks, by name. Once before `close`. A
  // collective call; ranks may have different figures.
  // Errors  distributed.failed
  void share(Collective& collective, std::string_view prefix = "");

  // Reads the metrics since the last record whose names begin with `prefix`, and resets them.
  // Figures without weight are skipped.
  MetricRecord close(uint64_t step, std::string_view prefix = "");

  // The metrics since the last record, and what was recorded last; nothing is waited for.
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
