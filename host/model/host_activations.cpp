// SPDX-License-Identifier: Apache-2.0
#include "host/model/activation_store.hpp"

#include <ATen/Functions.h>

#include <map>
#include <utility>

namespace tenon {
namespace {

class HostActivations final : public ActivationStore {
 public:
  void push(uint64_t microbatch, std::vector<at::Tensor> group) override {
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
    stacks_[microbatch].push_back(std::move(away));
  }

  std::vector<at::Tensor> pop(uint64_t microbatch) override {
    std::vector<Group>& stack = stacks_.at(microbatch);
    Group away = std::move(stack.back());
    stack.pop_back();
    for (at::Tensor& tensor : away.tensors) {
      tensor = tensor.to(away.device, /*non_blocking=*/true);
    }
    return std::move(away.tensors);
  }

  void drop(uint64_t microbatch) override { stacks_.erase(microbatch); }

 private:
  struct Group {
    std::vector<at::Tensor> tensors;
    at::Device device = at::kCPU;
  };
  std::map<uint64_t, std::vector<Group>> stacks_;  // by microbatch
};

}  // namespace

std::unique_ptr<ActivationStore> host_activations() {
  return std::make_unique<HostActivations>();
}

}  // namespace tenon
