// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/rank_result.hpp"

#include "host/tools/check/tensor_views.hpp"

#include <ATen/Functions.h>

#include <cstddef>

namespace tenon {
namespace {

void make_zeros(std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& of) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined() && of[i].defined()) {
      gradients[i] = at::zeros_like(of[i]);
    }
  }
}

}  // namespace

RankResult run_block(ModelTrial& trial,
                     uint32_t b,
                     const std::vector<at::Tensor>& inputs,
                     const std::vector<at::Tensor>& weights,
                     const BlockCall& call,
                     BlockBackward backward) {
  BlockTape tape = trial.forward(b, inputs, call);
  RankResult result{.outputs = copies_of(tape.outputs),
                    .aux = tape.aux,
                    .buffers = trial.next_buffers(b),
                    .gradients = {}};
  for (AuxLoss& aux : result.aux) {
    aux.sum = aux.sum.detach();
  }
  if (backward == BlockBackward::kNone) {
    return result;
  }
  if (backward == BlockBackward::kOutputsOnly) {
    tape.aux.clear();
  }
  result.gradients = trial.backward(b, tape, weights);
  make_zeros(result.gradients.inputs, inputs);
  std::vector<at::Tensor> parameters;
  for (const uint32_t p : trial.graph().blocks[b].parameters) {
    parameters.push_back(trial.store().leaf(p).detach());
  }
  make_zeros(result.gradients.parameters, parameters);
  return result;
}

}  // namespace tenon
