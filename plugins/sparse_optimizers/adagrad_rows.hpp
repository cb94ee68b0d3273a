// SPDX-License-Identifier: Apache-2.0
//
// Shared by adagrad and rowwise_adagrad: everything except the formula and the layout of the sums
// of squares.
#pragma once

#include "row_optimizer.hpp"

struct AdagradRowOptions : RowOptions {
  double lr_decay = 0.0;
  double initial_accumulator_value = 0.0;
  double eps = 1e-10;
  double weight_decay = 0.0;
};

class AdagradRows : public RowOptimizer {
 public:
  using Options = AdagradRowOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_row_rate(binder);
    binder.field("lr_decay", &Options::lr_decay)
        .min(0)
        .doc(
            "learning rate decay: the table's update n, from 1, divides lr by 1 + (n - 1) * "
            "lr_decay");
    binder.field("initial_accumulator_value", &Options::initial_accumulator_value)
        .min(0)
        .doc("initial value of the sums of squares");
    binder.field("eps", &Options::eps).min(0).doc("added to the square root of the sum of squares");
    bind_row_l2_decay(binder);
    bind_row_options(binder);
  }

 protected:
  explicit AdagradRows(const Options& options)
      : RowOptimizer(options),
        settings_{options.lr_decay, options.eps, options.weight_decay},
        initial_(options.initial_accumulator_value) {}

  const AdagradSettings& settings() const { return settings_; }
  double initial_sum() const { return initial_; }

 private:
  AdagradSettings settings_;
  double initial_;
};
