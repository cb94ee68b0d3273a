// SPDX-License-Identifier: Apache-2.0
#include "host/train/generate/token_sampler.hpp"

#include "host/tensor/philox.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace tenon {
namespace {

struct Candidate {
  int64_t id = 0;
  double value = 0;  // logit, then probability relative to the most likely token

  bool operator<(const Candidate& other) const {
    return value != other.value ? value > other.value : id < other.id;
  }
};

// Empty if a logit is NaN.
std::vector<Candidate> candidates_of(const at::Tensor& logits, int64_t num_ids) {
  const at::Tensor wide = logits.to(at::kDouble).contiguous();
  const double* const data = wide.const_data_ptr<double>();
  std::vector<Candidate> candidates;
  candidates.reserve(static_cast<size_t>(std::min(num_ids, wide.numel())));
  for (int64_t id = 0; id < std::min(num_ids, wide.numel()); ++id) {
    if (std::isnan(data[id])) {
      return {};
    }
    if (data[id] > -std::numeric_limits<double>::infinity()) {
      candidates.push_back({id, data[id]});
    }
  }
  return candidates;
}

}  // namespace

std::optional<int64_t> TokenSampler::pick(const at::Tensor& logits, uint64_t position) const {
  std::vector<Candidate> candidates = candidates_of(logits, ids_);
  if (candidates.empty()) {
    return std::nullopt;
  }
  if (sampling_.temperature == 0) {
    return std::ranges::min_element(candidates, std::less<>())->id;
  }
  const auto count = static_cast<int64_t>(candidates.size());
  if (sampling_.top_k > 0 && sampling_.top_k < count) {
    std::nth_element(
        candidates.begin(), candidates.begin() + sampling_.top_k - 1, candidates.end());
    candidates.resize(static_cast<size_t>(sampling_.top_k));
  }
  std::ranges::sort(candidates, std::less<>());
  const double largest = candidates.front().value;
  double sum = 0;
  for (Candidate& candidate : candidates) {
    candidate.value = std::exp((candidate.value - largest) / sampling_.temperature);
    sum += candidate.value;
  }
  if (sampling_.top_p < 1) {
    double kept = 0;
    size_t num_kept = 0;
    while (num_kept < candidates.size() && (num_kept == 0 || kept < sampling_.top_p * sum)) {
      kept += candidates[num_kept++].value;
    }
    candidates.resize(num_kept);
    sum = kept;
  }
  std::array<double, 1> uniform{};
  fill_uniform(sampling_.seed, stream_of("generate"), position, uniform);
  double left = uniform.front() * sum;
  for (const Candidate& candidate : candidates) {
    left -= candidate.value;
    if (left < 0) {
      return candidate.id;
    }
  }
  return candidates.back().id;  // reached by rounding only
}

}  // namespace tenon
