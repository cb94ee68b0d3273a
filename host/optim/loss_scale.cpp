// SPDX-License-Identifier: Apache-2.0
#include "host/optim/loss_scale.hpp"

#include <ATen/Functions.h>

namespace tenon {
namespace {

constexpr uint32_t kLossScaleVersion = 1;

}  // namespace

LossScale::LossScale(at::Device device, const LossScaleOptions& options)
    : options_(options),
      scale_(at::full({}, options.first, at::TensorOptions().dtype(at::kFloat).device(device))),
      growth_tracker_(at::zeros({}, at::TensorOptions().dtype(at::kInt).device(device))) {}

at::Tensor LossScale::inverse() const {
  return scale_.to(at::kDouble).reciprocal();
}

void LossScale::update(const at::Tensor& overflow) {
  at::_amp_update_scale_(scale_,
                         growth_tracker_,
                         overflow.to(scale_.device()),
                         options_.growth,
                         options_.backoff,
                         options_.growth_interval);
}

void LossScale::snapshot(StateTree& tree, const std::string& prefix) const {
  tree.set_version(prefix, kLossScaleVersion);
  tree.put_tensor(state_path(prefix, "scale"), scale_, StateTree::Copy::kYes);
  tree.put_tensor(state_path(prefix, "growth_tracker"), growth_tracker_, StateTree::Copy::kYes);
}

void LossScale::load(const StateTree& tree, const std::string& prefix) {
  scale_.copy_(tree.get_tensor(state_path(prefix, "scale")));
  growth_tracker_.copy_(tree.get_tensor(state_path(prefix, "growth_tracker")));
}

}  // namespace tenon
