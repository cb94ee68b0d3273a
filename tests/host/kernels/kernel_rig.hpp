// SPDX-License-Identifier: Apache-2.0
//
// What tests of operators share.
#pragma once

#include "host/kernels/kernel_choice.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Normal numbers in fp64, the same ones for a seed.
inline at::Tensor made(uint64_t seed, const std::vector<int64_t>& shape) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::dtype(at::kDouble));
}

// Copies of `values` in this dtype, which record gradients.
inline std::vector<at::Tensor> leaves_of(const std::vector<at::Tensor>& values,
                                         at::ScalarType dtype) {
  std::vector<at::Tensor> leaves;
  leaves.reserve(values.size());
  for (const at::Tensor& value : values) {
    leaves.push_back(value.to(dtype).detach().clone().requires_grad_(true));
  }
  return leaves;
}

// Sets a policy while it lives.
class PolicyScope {
 public:
  explicit PolicyScope(KernelPolicy policy) : before_(kernel_policy()) {
    set_kernel_policy(std::move(policy));
  }
  ~PolicyScope() { set_kernel_policy(before_); }
  PolicyScope(const PolicyScope&) = delete;
  PolicyScope& operator=(const PolicyScope&) = delete;

 private:
  KernelPolicy before_;
};

// Forces a kernel of an operator; "auto" forces none.
inline KernelPolicy forced_kernel(const std::string& op, const std::string& kernel) {
  KernelPolicy policy;
  if (kernel != "auto") {
    policy.forced[op] = kernel;
  }
  return policy;
}

// "plain" or "auto" for all operators.
inline KernelPolicy all_kernels(const std::string& kernels) {
  return {.mode = kernels == "plain" ? KernelPolicy::Mode::kPlain : KernelPolicy::Mode::kAuto,
          .forced = {}};
}

// Every choice in fp32, one forced at a time: "auto", "plain", or one operator and its kernel. The
// recipe's key "kernels" has the same words, except for "onednn_transposed".
inline std::vector<std::pair<std::string, std::string>> kernel_choices() {
  return {{"", "auto"},
          {"", "plain"},
          {"linear", "mkl"},
          {"linear", "onednn"},
          {"linear", "onednn_transposed"},
          {"linear", "tenon"},
          {"linear", "plain"},
          {"attention", "plain"},
          {"embedding", "plain"},
          {"gated_mlp", "plain"},
          {"rms_norm", "plain"}};
}

// The policy of one of these.
inline KernelPolicy policy_of(const std::pair<std::string, std::string>& choice) {
  const auto& [op, kernel] = choice;
  return op.empty() ? all_kernels(kernel) : forced_kernel(op, kernel);
}

}  // namespace tenon
