// SPDX-License-Identifier: Apache-2.0
//
// The figures of a run between two records: sums over weights that add up, values that are set.
// Closing a record is the one place where figures that are still on a device are waited for.
// Invariant: the figures of a record stand in the order in which their names were first used.
// Threads: the train thread alone.
#pragma once

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

  const double* find(std::string_view name) const;
};

// True for names that a figure may have: 1 to 100 of [A-Za-z0-9_/.-].
bool is_legal_metric_name(std::string_view name);

class MetricBook {
 public:
  // When scalars that are given as tensors are read: at once, where there is nothing to wait for,
  // or all together, when somebody needs a figure.
  enum class Reading { kAtOnce, kTogether };
  explicit MetricBook(Reading reading = Reading::kAtOnce) : reading_(reading) {}

  // Adds sum and weight to a figure: the record shows their quotient.
  // Errors  metrics.bad_name
  void add(std::string_view name, double sum, double weight);
  // The same with scalars that may still be computed.
  void add_tensor(std::string_view name, const at::Tensor& sum, const at::Tensor& weight);
  // Sets a figure of the next record; the last value counts.
  void set(std::string_view name, double value);

  // The last recorded value of a figure.
  std::optional<double> last(std::string_view name) const;

  // The quotient of a figure as it stands; waits for it. 0 where it has no weight.
  double mean(std::string_view name);

  // Reads the figures since the last record whose names begin with `prefix`, and starts them anew.
  // Figures without weight are left out.
  MetricRecord close(uint64_t step, std::string_view prefix = "");

 private:
  struct Figure {
    std::string name;
    bool is_used = false;
    bool is_value = false;
    double sum = 0;
    double weight = 0;
    at::Tensor tensor_sum;  // f64
    at::Tensor tensor_weight;
    std::optional<double> last;
  };
  Figure& figure(std::string_view name);
  void read_tensors();

  Reading reading_;
  std::vector<Figure> figures_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace tenon
