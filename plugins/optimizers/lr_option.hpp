// SPDX-License-Identifier: Apache-2.0
//
// Options shared by the dense optimizers: learning rate, set by the host, and weight decay.
#pragma once

#include <tenon/cpp/options.hpp>

// Base of an optimizer's options.
struct LrOptions {
  double lr = 1e-3;  // owned by the host, which passes it to each update
  double weight_decay = 0.0;
};

// Binds `lr`.
template <class O>
void bind_lr(tenon::OptionBinder<O>& binder) {
  binder.field("lr", &O::lr).min(0).doc("learning rate, multiplied by the schedule");
}

// Binds `weight_decay` as L2 regularization. Optimizers with decoupled decay bind their own.
template <class O>
void bind_l2_decay(tenon::OptionBinder<O>& binder) {
  binder.field("weight_decay", &O::weight_decay)
      .min(0)
      .doc("L2 regularization: adds weight_decay * parameter to the gradient");
}
