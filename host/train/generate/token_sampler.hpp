// SPDX-License-Identifier: Apache-2.0
//
// Chooses the next token from logits: the most likely one, or a random one. Random numbers depend
// only on the seed and the position, so the same seed gives the same text again.
// Threads: any.
#pragma once

#include "host/train/generate/sampling.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace tenon {

class TokenSampler {
 public:
  // Ids from `num_ids` on are never chosen: a model may have more logits than the tokenizer has
  // ids.
  TokenSampler(const Sampling& sampling, int64_t num_ids) : sampling_(sampling), ids_(num_ids) {}

  // Returns the id for position `position` of the sequence. Of equally likely tokens, the one with
  // the smaller id comes first. Nothing if a logit is NaN, or all are -infinity.
  //
  // Shapes  logits [V], fp32 or fp64, on the CPU
  // Source  top-p: Holtzman et al., The Curious Case of Neural Text Degeneration (ICLR 2020)
  std::optional<int64_t> pick(const at::Tensor& logits, uint64_t position) const;

 private:
  Sampling sampling_;
  int64_t ids_;
};

}  // namespace tenon
