// SPDX-License-Identifier: Apache-2.0
//
// The losses of an evaluation: sums and counts over its batches, over all ranks, and over all
// evaluations of a series.
// Threads: the train thread.
#pragma once

#include "host/data/data_source.hpp"
#include "host/distributed/collectives/group.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/state_fields.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Sums of one evaluation, on this rank.
struct EvaluationSums {
  explicit EvaluationSums(size_t num_losses);
  // Adds a batch.
  void add(const std::vector<at::Tensor>& of_sums, const std::vector<at::Tensor>& of_counts);
  // Adds the sums of sources of a mix, whose names are in the order of their numbers.
  void add_sources(const std::vector<SourceSums>& sources, std::span<const MixPartInfo> names);

  std::vector<at::Tensor> sums;    // by loss, [] f64
  std::vector<at::Tensor> counts;  // by loss, [] f64
  uint64_t microbatch = 0;         // the number of the next batch
  struct Source {
    std::string name;
    SourceSums of;
  };
  std::vector<Source> sources;
};

class EvaluationLosses final : public WithStateFields<EvaluationLosses> {
 public:
  using Metrics = std::vector<std::pair<std::string, double>>;

  explicit EvaluationLosses(const LossSet& losses) : losses_(losses) {}

  // Returns the mean losses of an evaluation over all ranks, by name: "loss", and "loss/NAME" if
  // there are several. If `series` is not empty, adds the means over all evaluations of the series,
  // with the suffix "/run". Returns none if some loss has a count of 0.
  // A collective call.
  std::optional<Metrics> close(const EvaluationSums& sums, Group& ranks, const std::string& series);

  // Adds the sums of each source to the metrics "data/SOURCE/loss" of an evaluation, or
  // "data/SOURCE/loss/NAME" if there are several losses. MetricBook adds them up over ranks.
  void add_sources(const EvaluationSums& sums,
                   const std::string& prefix,
                   MetricBook& metrics) const;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.list("series", self.series_, [](auto& fields, auto& series) {
      fields.field("name", series.name);
      fields.list("", series.losses, [](auto& of_loss, auto& loss) {
        of_loss.field("sum", loss.sum);
        of_loss.field("count", loss.count);
      });
    });
  }

 private:
  struct Loss {
    double sum = 0;
    double count = 0;
  };
  struct Series {
    std::string name;
    std::vector<Loss> losses;
  };
  Series& series(const std::string& name);
  void add_means(const std::vector<Loss>& of, const std::string& suffix, Metrics& to) const;

  const LossSet& losses_;
  std::vector<Series> series_;  // by name
};

}  // namespace tenon
