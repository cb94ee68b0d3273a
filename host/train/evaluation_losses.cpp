// SPDX-License-Identifier: Apache-2.0
#include "host/train/evaluation_losses.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <span>

namespace tenon {

EvaluationSums::EvaluationSums(size_t num_losses)
    : sums(num_losses, at::zeros({}, at::kDouble)),
      counts(num_losses, at::zeros({}, at::kDouble)) {}

void EvaluationSums::add(const std::vector<at::Tensor>& of_sums,
                         const std::vector<at::Tensor>& of_counts) {
  for (size_t l = 0; l < of_sums.size(); ++l) {
    sums[l] = sums[l] + of_sums[l].to(at::kDouble);
    counts[l] = counts[l] + of_counts[l];
  }
}

void EvaluationSums::add_sources(const std::vector<SourceSums>& more,
                                 std::span<const MixPartInfo> names) {
  for (const SourceSums& one : more) {
    const auto found =
        std::ranges::find_if(sources, [&](const Source& s) { return s.of.part == one.part; });
    if (found == sources.end()) {
      sources.push_back({.name = names[one.part].name, .of = one});
      continue;
    }
    for (size_t l = 0; l < one.sums.size(); ++l) {
      found->of.sums[l] = found->of.sums[l] + one.sums[l];
      found->of.counts[l] = found->of.counts[l] + one.counts[l];
    }
  }
}

void EvaluationLosses::add_sources(const EvaluationSums& sums,
                                   const std::string& prefix,
                                   MetricBook& metrics) const {
  for (const EvaluationSums::Source& source : sums.sources) {
    for (size_t l = 0; l < source.of.sums.size(); ++l) {
      const std::string loss = losses_.size() > 1 ? "loss/" + losses_.name(l) : "loss";
      metrics.add_tensor(
          prefix + "data/" + source.name + "/" + loss, source.of.sums[l], source.of.counts[l]);
    }
  }
}

std::optional<EvaluationLosses::Metrics> EvaluationLosses::close(const EvaluationSums& sums,
                                                                 Group& ranks,
                                                                 const std::string& series_name) {
  std::vector<Loss> all(sums.sums.size());
  for (size_t l = 0; l < all.size(); ++l) {
    double pair[] = {sums.sums[l].item<double>(), sums.counts[l].item<double>()};
    ranks.all_reduce(std::span(pair), Reduce::kSum, "metrics of an evaluation");
    if (pair[1] == 0) {
      return std::nullopt;
    }
    all[l] = {pair[0], pair[1]};
  }
  Metrics metrics;
  add_means(all, "", metrics);
  if (!series_name.empty()) {
    Series& so_far = series(series_name);
    for (size_t l = 0; l < all.size(); ++l) {
      so_far.losses[l].sum += all[l].sum;
      so_far.losses[l].count += all[l].count;
    }
    add_means(so_far.losses, "/run", metrics);
  }
  return metrics;
}

EvaluationLosses::Series& EvaluationLosses::series(const std::string& name) {
  auto found = std::ranges::lower_bound(series_, name, {}, &Series::name);
  if (found == series_.end() || found->name != name) {
    found = series_.insert(found, Series{name, std::vector<Loss>(losses_.size())});
  }
  return *found;
}

// Adds the weighted total last.
void EvaluationLosses::add_means(const std::vector<Loss>& of,
                                 const std::string& suffix,
                                 Metrics& to) const {
  double total = 0;
  for (size_t l = 0; l < of.size(); ++l) {
    const double mean = of[l].sum / of[l].count;
    total += losses_.weight(l) * mean;
    if (of.size() > 1) {
      to.emplace_back("loss/" + losses_.name(l) + suffix, mean);
    }
  }
  to.emplace_back("loss" + suffix, total);
}

}  // namespace tenon
