// SPDX-License-Identifier: Apache-2.0
//
// Squared error, summed over elements; the count is the number of elements.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/loss.hpp>

#include <ATen/ATen.h>

#include <cstdint>

namespace {

class Mse : public tenon::TorchLoss {
 public:
  static constexpr const char* kType = "mse";
  static constexpr const char* kSummary = "mean squared error over elements";

  void describe(tenon::LossInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("targets", {}, TENON_CLASS_ANY)
        .additive_over(TENON_ADDITIVE_TOKENS)
        .count_from_batch();
  }

  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    const at::Tensor& targets = inputs[kTargets];
    return at::full({}, static_cast<double>(targets.numel()), targets.options().dtype(at::kDouble));
  }

  at::Tensor compute(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    at::Tensor prediction = inputs[kLogits];
    at::Tensor targets = inputs[kTargets];
    if (prediction.dim() == targets.dim() + 1 && prediction.size(-1) == 1) {
      targets = targets.unsqueeze(-1);
    } else if (targets.dim() == prediction.dim() + 1 && targets.size(-1) == 1) {
      targets = targets.squeeze(-1);
    }
    TENON_CHECK(prediction.sizes() == targets.sizes(),
                "logits of shape ",
                inputs[kLogits].sizes(),
                " and targets of shape ",
                inputs[kTargets].sizes(),
                " do not match; they must be equal except for a last axis of size 1");
    const at::ScalarType sum_dtype =
        prediction.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return at::mse_loss(prediction.to(sum_dtype), targets.to(sum_dtype), at::Reduction::Sum);
  }

 private:
  enum Port : size_t { kLogits, kTargets };
};

}  // namespace

TENON_PLUGIN(Mse)
