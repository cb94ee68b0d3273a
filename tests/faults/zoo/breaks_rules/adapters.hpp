// SPDX-License-Identifier: Apache-2.0
//
// A parametrization: a frozen matrix times one trained factor for each of its rows.
#pragma once

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/op.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/draft/parametrization.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/faults/zoo/breaks_rules/fault.hpp"

namespace {

class RuleAdapter final : public tenon::Component {
 public:
  using Kind = RuleAdapter;
  static constexpr const char* kKind = "parametrization";
  static constexpr const char* kInterfaceId = TENON_PARAMETRIZATION_ID;
  static constexpr const char* kType = "rule_adapter";
  static constexpr const char* kSummary = "for tests: factors of rows; may break a rule";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit RuleAdapter(const Options& options) : fault_(options.fault) {}

  template <class T>
  static const void* table() {
    static const tenon_parametrization calls{sizeof(tenon_parametrization),
                                             on_describe,
                                             on_start,
                                             on_effective,
                                             nullptr,
                                             nullptr,
                                             on_product};
    return &calls;
  }

 private:
  static tenon_status* on_describe(void* self,
                                   const tenon_parameter_spec* effective,
                                   tenon_parametrization_info* out) noexcept {
    return tenon::call_on<RuleAdapter>(self, [&](RuleAdapter& one) {
      if (effective->ndim != 2) {
        TENON_FAIL(TENON_UNSUPPORTED, "rules.matrix", "only matrices have rows");
      }
      one.shape_ = {effective->shape[0], effective->shape[1]};
      one.factors_ = {effective->shape[0], 1};
      one.reals_ = {spec("", one.shape_, TENON_PARAM_FROZEN, TENON_INIT_ZEROS),
                    spec(".factors", one.factors_, 0, TENON_INIT_ONES)};
      out->reals_ref = one.reals_.data();
      out->num_reals = one.reals_.size();
    });
  }
  static tenon_parameter_spec spec(const char* name,
                                   const std::vector<int64_t>& shape,
                                   uint32_t flags,
                                   uint32_t init) {
    return {sizeof(tenon_parameter_spec),
            name,
            shape.data(),
            shape.size(),
            TENON_CLASS_PARAM,
            flags,
            init,
            0,
            0,
            0,
            nullptr,
            nullptr};
  }
  static tenon_status* on_start(void* self,
                                const tenon_exec*,
                                const tenon_parametrization_start_args* args) noexcept {
    return tenon::call_on<RuleAdapter>(self, [&](RuleAdapter& one) {
      if (one.fault_ == "start") {
        const tenon::TensorRef factors(one.host(), args->reals[1]);
        tenon::call_op(one.host(), "aten::mul_.Scalar", {factors, 0.5});
      }
      one.num_started_ += 1;
    });
  }
  static tenon_status* on_effective(void* self,
                                    const tenon_exec*,
                                    tenon_effective_args* args) noexcept {
    return tenon::call_on<RuleAdapter>(self, [&](RuleAdapter& one) {
      args->out_own = one.effective(args->reals, one.fault_).release();
    });
  }
  static tenon_status* on_product(void* self,
                                  const tenon_exec*,
                                  tenon_product_args* args) noexcept {
    return tenon::call_on<RuleAdapter>(self, [&](RuleAdapter& one) {
      const tenon::Tensor w = one.effective(args->reals, one.fault_);
      tenon::Tensor y = tenon::call_op(
          one.host(), "aten::linear", {tenon::TensorRef(one.host(), args->x), w, nullptr});
      if (one.fault_ == "product") {
        y = tenon::call_op(one.host(), "aten::mul.Scalar", {y, 2.0});
      }
      args->out_own = y.release();
    });
  }

  tenon::Tensor effective(const tenon_tensor* const* reals, const std::string& fault) const {
    const tenon::TensorRef base(host(), reals[0]);
    tenon::Tensor factors;
    if (fault == "gradients") {
      factors = tenon::call_op(host(), "aten::detach", {tenon::TensorRef(host(), reals[1])});
    } else {
      factors =
          tenon::call_op(host(), "aten::mul.Scalar", {tenon::TensorRef(host(), reals[1]), 1.0});
    }
    if (fault == "repeatable" && num_started_ == 0) {
      factors = tenon::call_op(host(), "aten::mul.Scalar", {factors, 0.5});
    }
    return tenon::call_op(host(), "aten::mul.Tensor", {base, factors});
  }

  std::string fault_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> factors_;
  std::vector<tenon_parameter_spec> reals_;
  int num_started_ = 0;
};

}  // namespace
