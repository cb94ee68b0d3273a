// SPDX-License-Identifier: Apache-2.0
//
// AdamW. Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization (ICLR 2019),
// algorithm 2.
#include <tenon/cpp/plugin.hpp>

#include "../fused_adam.hpp"

namespace {

struct AdamWOptions : AdamOptions {
  AdamWOptions() { weight_decay = 0.01; }
};

class AdamW : public FusedAdam<Decay::kDecoupled> {
 public:
  static constexpr const char* kType = "adamw";
  static constexpr const char* kSummary = "Adam with decoupled weight decay";
  using Options = AdamWOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_lr(binder);
    bind_adam(binder);
    binder.field("weight_decay", &Options::weight_decay)
        .min(0)
        .doc(
            "decoupled weight decay, multiplied by lr; not applied to parameters that the model "
            "exempts (norms, biases)");
  }

  using FusedAdam::FusedAdam;
};

}  // namespace

TENON_PLUGIN(AdamW)
