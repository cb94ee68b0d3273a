// SPDX-License-Identifier: Apache-2.0
//
// What every dense optimizer here takes: a rate, which is the host's, and a weight decay.
#pragma once

#include <tenon/cpp/options.hpp>

// To derive an optimizer's options from.
struct RateOptions {
  double lr = 1e-3;  // the host's: it arrives with each update
  double weight_decay = 0.0;
};

// Binds `lr`.
template <class O>
void bind_rate(tenon::OptionBinder<O>& binder) {
  binder.field("lr", &O::lr).min(0).doc("the rate, which the schedule multiplies");
}

// Binds `weight_decay` in its classical form, L2 regularisation; a decoupled one says so itself.
template <class O>
void bind_l2_decay(tenon::OptionBinder<O>& binder) {
  binder.field("weight_decay", &O::weight_decay)
      .min(0)
      .doc("added to the gradient, times the parameter");
}
