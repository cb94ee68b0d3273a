// SPDX-License-Identifier: Apache-2.0
#include "host/model/activation_store.hpp"

#include <ATen/Functions.h>

#include <utility>

namespace tenon {
namespace {

class HostActivations final : public ActivationStore {
 public:
  void push(std::vector<at::Tensor> group) override {
    Group away;
    for (const at::Tensor& tensor : group) {
      const bool is_pinned = !tensor.device().is_cpu();
      at::Tensor copy =
          at::empty_strided(tensor.sizes(),
                            tensor.strides(),
                            tensor.options().device(at::kCPU).pinned_memory(is_pinned));
      copy.copy_(tensor, /*non_blocking=*/true);
      away.tensors.push_back(std::move(copy));
      away.device = tensor.device();
    }
    groups_.push_back(std::move(away));
  }

  std::vector<at::Tensor> pop() override {
    Group away = std::move(groups_.back());
    groups_.pop_back();
    for (at::Tensor& tensor : away.tensors) {
      tensor = tensor.to(away.device, /*non_blocking=*/true);
    }
    return std::move(away.tensors);
  }

  void clear() override { groups_.clear(); }

 private:
  struct Group {
    std::vector<at::Tensor> tensors;
    at::Device device = at::kCPU;
  };
  std::vector<Group> groups_;
};

}  // namespace

std::unique_ptr<ActivationStore> host_activations() {
  return std::make_unique<HostActivations>();
}

}  // namespace tenon
