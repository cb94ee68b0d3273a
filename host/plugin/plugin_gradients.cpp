// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/plugin_gradients.hpp"

#include "host/tensor/torch_guard.hpp"

#include <torch/csrc/autograd/autograd.h>

namespace tenon {

std::vector<at::Tensor> plugin_gradients(const ComponentIdentity& identity,
                                         const std::vector<at::Tensor>& outputs,
                                         const std::vector<at::Tensor>& wrt,
                                         const std::vector<at::Tensor>& seeds) {
  std::vector<at::Tensor> gradients;
  identity.call("backward", [&] {
    return foreign_guard(nullptr, [&] {
      gradients = torch::autograd::grad(outputs,
                                        wrt,
                                        seeds,
                                        /*retain_graph=*/false,
                                        /*create_graph=*/false,
                                        /*allow_unused=*/true);
    });
  });
  return gradients;
}

}  // namespace tenon
