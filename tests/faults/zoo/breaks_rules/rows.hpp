// SPDX-License-Identifier: Apache-2.0
//
// A sparse optimizer with momentum: m = 0.9 m + grad; value = value - lr m.
#pragma once

#include <tenon/cpp/sparse_optimizer.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/faults/zoo/breaks_rules/fault.hpp"

namespace {

struct RuleRowsOptions {
  double lr = 0.1;
  std::string fault;
};

class RuleRows final : public tenon::AnySparseOptimizer {
 public:
  static constexpr const char* kType = "rule_rows";
  static constexpr const char* kSummary = "for tests: momentum of rows; may break a rule";
  using Options = RuleRowsOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("lr", &Options::lr).min(0).doc("learning rate");
    binder.field("fault", &Options::fault).doc("which rule is broken; \"\": none");
  }

  explicit RuleRows(const Options& options) : fault_(options.fault) {}

  void describe(tenon::SparseOptimizerInfo& info) override {
    info.slot("momentum").narrow(TENON_NARROW_STOCHASTIC);
  }

  void call_update(const tenon::Exec&, const tenon_sparse_update_args& args) override {
    if (args.found_inf != nullptr && *args.found_inf == 1 && fault_ != "found_inf") {
      return;
    }
    const size_t dim = args.layout->dim;
    const bool is_finite = std::all_of(
        args.grads, args.grads + args.n * dim, [](float grad) { return std::isfinite(grad); });
    if (fault_ == "non_finite" && !is_finite) {
      return;  // for all rows
    }
    double rate = *args.lr;
    if (fault_ == "rows") {
      rate /= static_cast<double>(args.n);
    }
    if (fault_ == "resume") {
      int64_t none = 0;
      first_step_.compare_exchange_strong(none, *args.step);
      rate /= static_cast<double>(*args.step - first_step_ + 1);
    }
    std::vector<float> value(dim);
    for (size_t i = 0; i < args.n; ++i) {
      const tenon::SparseRow row(host(), args, info().narrow(), i);
      auto* const momentum = row.slot(0);
      row.read_value(value.data());
      for (size_t j = 0; j < dim; ++j) {
        momentum[j] = 0.9F * momentum[j] + row.grad()[j];
        value[j] -= static_cast<float>(rate * momentum[j]);
      }
      if (fault_ == "update") {
        momentum[dim] = 1;  // past the end of the slot
      }
      row.write_value(value.data());
    }
  }

 private:
  std::string fault_;
  std::atomic<int64_t> first_step_ = 0;
};

}  // namespace
