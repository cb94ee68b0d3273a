// SPDX-License-Identifier: Apache-2.0
//
// Inputs of metrics over scored samples: score and label per sample, an optional weight, and for
// some metrics a group id (user, query).
//
// Shapes: N labels.
#pragma once

#include <tenon/torch/metric.hpp>

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "label_option.hpp"

struct ScoreOptions : LabelOptions {
  enum class Scores { kLogits, kProbabilities };

  Scores scores = Scores::kLogits;
};

// Binds `scores`, for metrics that need probabilities. Ranking metrics do not need it.
template <class Options>
void bind_scores(tenon::OptionBinder<Options>& binder) {
  using Scores = ScoreOptions::Scores;
  binder
      .choice("scores",
              &Options::scores,
              {{"logits", Scores::kLogits}, {"probabilities", Scores::kProbabilities}})
      .doc("content of the input `logits`; logits are converted by sigmoid");
}

// fp64, flat; an ignored label has weight 0 and value 0.
struct ScoredSamples {
  at::Tensor scores_N;
  at::Tensor labels_N;
  at::Tensor weights_N;
  at::Tensor groups_N;  // i64; undefined without groups
};

// Ports of these metrics, in this order: logits, labels, then optional weights or a group.
struct ScorePorts {
  static constexpr size_t kLogits = 0;
  static constexpr size_t kLabels = 1;
};

// One number per label, flattened.
// Errors   invalid
inline at::Tensor by_label(const at::Tensor& by_sample,
                           const at::Tensor& labels,
                           const char* what) {
  if (by_sample.numel() == labels.numel()) {
    return by_sample.reshape({-1});
  }
  TENON_CHECK(by_sample.dim() == 1 && labels.dim() >= 1 && by_sample.size(0) == labels.size(0),
              what,
              " of shape ",
              by_sample.sizes(),
              " does not match labels of shape ",
              labels.sizes(),
              "; expected one per sample");
  std::vector<int64_t> ones(static_cast<size_t>(labels.dim()), 1);
  ones[0] = -1;
  return by_sample.reshape(ones).expand(labels.sizes()).reshape({-1});
}

// `weight` and `group` are port indices, or -1. Does not wait for the device.
// Errors   invalid if shapes do not match
inline ScoredSamples scored_samples(const tenon::TorchInputs& inputs,
                                    int64_t ignore_index,
                                    int weight,
                                    int group) {
  const at::Tensor& scores = inputs[ScorePorts::kLogits];
  const at::Tensor& labels = inputs[ScorePorts::kLabels];
  TENON_CHECK(scores.numel() == labels.numel(),
              "logits of shape ",
              scores.sizes(),
              " and labels of shape ",
              labels.sizes(),
              " do not match; expected one score per label");
  ScoredSamples samples;
  const at::Tensor is_ignored = labels.reshape({-1}).eq(ignore_index);
  samples.scores_N = scores.reshape({-1}).to(at::kDouble);
  samples.labels_N = labels.reshape({-1}).to(at::kDouble).masked_fill(is_ignored, 0.0);
  samples.weights_N = is_ignored.logical_not().to(at::kDouble);
  if (weight >= 0 && inputs.has(static_cast<size_t>(weight))) {
    const at::Tensor given = by_label(inputs[static_cast<size_t>(weight)], labels, "sample_weight");
    samples.weights_N = given.to(at::kDouble).masked_fill(is_ignored, 0.0);
  }
  if (group >= 0) {
    const at::Tensor given = by_label(inputs[static_cast<size_t>(group)], labels, "the group");
    samples.groups_N = given.to(at::kLong);
  }
  return samples;
}

inline at::Tensor probabilities_of(const at::Tensor& scores_N, ScoreOptions::Scores scores) {
  return scores == ScoreOptions::Scores::kLogits ? scores_N.sigmoid() : scores_N;
}
