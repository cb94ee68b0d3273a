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
    bind_rate(binder);
    bind_adam(binder);
    binder.field("weight_decay", &Options::weight_decay)
        .min(0)
        .doc(
            "share of a parameter that a step takes away, times the rate; parameters that a model "
            "flags as without decay (norms, biases) have none");
  }

  using FusedAdam::FusedAdam;
};

}  // namespace

TENON_PLUGIN(AdamW)
