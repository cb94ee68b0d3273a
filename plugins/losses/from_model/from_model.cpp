// SPDX-License-Identifier: Apache-2.0
//
// The loss that a model computes itself, as one of its outputs.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/loss.hpp>

#include <ATen/ATen.h>

#include <cstddef>

namespace {

class FromModel : public tenon::TorchLoss {
 public:
  static constexpr const char* kType = "from_model";
  static constexpr const char* kSummary = "loss that the model computes, as one of its outputs";

  // Outputs exist after the forward only, so nothing is counted before it.
  void describe(tenon::LossInfo& info) override {
    info.port("loss", {}, TENON_CLASS_FLOAT)
        .optional_port("loss_count", {}, TENON_CLASS_ANY)
        .additive_over(TENON_ADDITIVE_SAMPLES);
  }

  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    if (inputs.has(kCount)) {
      return inputs[kCount].detach().to(at::kDouble).sum();
    }
    const at::Tensor& loss = inputs[kLoss];
    return at::full({}, static_cast<double>(loss.numel()), loss.options().dtype(at::kDouble));
  }

  at::Tensor compute(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    const at::Tensor& loss = inputs[kLoss];
    return loss.to(loss.scalar_type() == at::kDouble ? at::kDouble : at::kFloat).sum();
  }

 private:
  enum Port : size_t { kLoss, kCount };
};

}  // namespace

TENON_PLUGIN(FromModel)
