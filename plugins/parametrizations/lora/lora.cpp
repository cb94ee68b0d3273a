// SPDX-License-Identifier: Apache-2.0
//
// W + (alpha / rank) B A, with a frozen W.
//
// Source   Hu et al., LoRA: Low-Rank Adaptation of Large Language Models (ICLR 2022), section 4.1
#include "../low_rank.hpp"

namespace {

class Lora final : public AddedLowRank {
 public:
  static constexpr const char* kType = "lora";
  static constexpr const char* kSummary = "LoRA: a frozen matrix plus a trained low-rank update";

  using AddedLowRank::AddedLowRank;
};

}  // namespace

TENON_PLUGIN(Lora)
