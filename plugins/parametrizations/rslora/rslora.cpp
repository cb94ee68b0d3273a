// SPDX-License-Identifier: Apache-2.0
//
// W + (alpha / sqrt(rank)) B A, with a frozen W.
//
// Source   Kalajdzievski, A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA (2023),
//          definition 3.2
#include "../low_rank.hpp"

namespace {

class RsLora final : public AddedLowRank {
 public:
  static constexpr const char* kType = "rslora";
  static constexpr const char* kSummary =
      "rank-stabilized LoRA: the update is scaled by 1/sqrt(rank)";

  using AddedLowRank::AddedLowRank;

 protected:
  double scale() const override {
    return options().alpha / std::sqrt(static_cast<double>(options().rank));
  }
  bool is_rank_stabilized() const override { return true; }
};

}  // namespace

TENON_PLUGIN(RsLora)
