// SPDX-License-Identifier: Apache-2.0
//
// Shared by adam and adamw: everything except the weight decay.
#pragma once

#include <vector>

#include "row_optimizer.hpp"

struct AdamRowOptions : RowOptions {
  AdamRowOptions() { lr = 1e-3; }

  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  bool correct_eps = false;
};

// Binds `lr`, `betas`, `eps` and `correct_eps`, which come first.
template <class O>
void bind_adam_rows(tenon::OptionBinder<O>& binder) {
  bind_row_rate(binder);
  bind_row_betas(binder,
                 "decay factors of the running means of gradient and squared gradient, applied "
                 "when a row is updated");
  binder.field("eps", &O::eps).min(0).doc("added to the square root of the mean square");
  binder.field("correct_eps", &O::correct_eps)
      .doc("add eps to the root of the bias-corrected mean square, as dense optimizers do");
}

// The settings without weight decay.
inline AdamSettings adam_settings(const AdamRowOptions& options) {
  return {.beta1 = options.betas[0],
          .beta2 = options.betas[1],
          .eps = options.eps,
          .correct_eps = options.correct_eps};
}

class AdamRows : public RowOptimizer {
 public:
  void describe(tenon::SparseOptimizerInfo& info) override {
    info.slot("exp_avg").slot("exp_avg_sq");
    describe_rows(info);
  }

 protected:
  AdamRows(const AdamRowOptions& options, const AdamSettings& settings)
      : RowOptimizer(options), settings_(settings) {}

  const AdamSettings& settings() const { return settings_; }

 private:
  AdamSettings settings_;
};
