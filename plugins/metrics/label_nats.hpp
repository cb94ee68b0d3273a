// SPDX-License-Identifier: Apache-2.0
//
// Negative log likelihoods of labels, shared by metrics that sum them.
//
// Shapes: N labels, V classes.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "label_option.hpp"

struct LabelNats {
  at::Tensor sum;        // over the labels that count
  at::Tensor counted_N;  // bool: labels other than ignore_index
};

// Returns the negative log likelihoods of the labels under the softmax of the logits.
//
// Shapes   logits [..., V], labels [...]; sum [] f64
// Units    nats
// Errors   as check_class_axes
inline LabelNats label_nats(const at::Tensor& logits,
                            const at::Tensor& labels,
                            int64_t ignore_index) {
  check_class_axes(logits, labels);
  const at::Tensor labels_N = labels.reshape({-1}).to(at::kLong);
  const at::Tensor logits_NV = logits.reshape({-1, logits.size(-1)});
  const at::ScalarType dtype = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor nats_N = at::nll_loss_nd(
      at::log_softmax(logits_NV, -1, dtype), labels_N, {}, at::Reduction::None, ignore_index);
  return {nats_N.sum(at::kDouble), labels_N.ne(ignore_index)};
}
