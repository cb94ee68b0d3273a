// SPDX-License-Identifier: Apache-2.0
//
// Adam with weight decay as L2 regularization: the decay is added to the gradient.
//
// Source: Kingma and Ba, Adam: A Method for Stochastic Optimization (ICLR 2015), algorithm 1.
#include <tenon/cpp/plugin.hpp>

#include "../fused_adam.hpp"

namespace {

class Adam : public FusedAdam<Decay::kL2> {
 public:
  static constexpr const char* kType = "adam";
  static constexpr const char* kSummary = "Adam with weight decay as L2 regularization";
  using Options = AdamOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_lr(binder);
    bind_adam(binder);
    bind_l2_decay(binder);
  }

  using FusedAdam::FusedAdam;
};

}  // namespace

TENON_PLUGIN(Adam)
