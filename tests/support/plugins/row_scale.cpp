// SPDX-License-Identifier: Apache-2.0
//
// A frozen matrix whose rows have trained factors, which start at 1.
//
// Letters in names: N output width, D input width.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/ops.hpp>
#include <tenon/torch/parametrization.hpp>

#include <ATen/ATen.h>

namespace {

class RowScale final : public tenon::TorchLinearParametrization {
 public:
  static constexpr const char* kType = "row_scale";
  static constexpr const char* kSummary = "a frozen matrix with a trained factor for each row";

  void describe(const tenon::EffectiveParameter& effective, tenon::RealSet& reals) override {
    if (effective.shape.size() != 2) {
      TENON_FAIL(TENON_UNSUPPORTED, "row_scale.shape", "it is not a matrix");
    }
    reals.base(effective, TENON_PARAM_FROZEN)
        .real(".factor", {effective.shape[0]}, tenon::Init::ones(), TENON_PARAM_NO_DECAY)
        .follows(/*axis=*/0, /*real_axis=*/0)
        .divisible(/*axis=*/0)
        .divisible(/*axis=*/1);
  }

  at::Tensor effective(const tenon::Exec&, const tenon::Reals& reals) override {
    return reals.real(kBase) * reals.real(kFactor).unsqueeze(1);
  }

  at::Tensor product(const tenon::Exec&, const at::Tensor& x, const tenon::Reals& reals) override {
    return tenon::ops::linear(x, {reals.real(kBase)}) * reals.real(kFactor);
  }

 private:
  enum Real : size_t { kBase, kFactor };
};

}  // namespace

TENON_PLUGIN(RowScale)
