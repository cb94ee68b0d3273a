// SPDX-License-Identifier: Apache-2.0
//
// Exchanges of one call of an operator in a divided region (tensor_region.hpp), and the name that
// its collectives have. No autograd.
#pragma once

#include "host/kernels/tensor_region.hpp"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct RegionCall {
  TensorRegionPtr region;
  std::string op;  // with its number in the region: "tensor_in 2"

  // "block 'layers.3', tensor_in 2".
  std::string name() const;
  // The call in which autograd runs the adjoint of this one: "backward of tensor_in 2".
  RegionCall backward() const { return {region, "backward of " + op}; }
};

// Begins the next call of a region.
RegionCall begin_call(const TensorRegionPtr& region, std::string_view op);

// For functions of autograd: their backward may run on a thread without the region.
void save_call(torch::autograd::AutogradContext& context, const RegionCall& call);
RegionCall saved_call(const torch::autograd::AutogradContext& context);

// Returns all positions, from the piece of each rank.
// Shapes  x [B, T of this rank, ...]; the result is [B, T, ...]
// Errors  c10::Error if axis 1 has another size
at::Tensor gather_pieces(const RegionCall& call, const at::Tensor& x);
// Returns the sum over ranks of this rank's positions.
// Shapes  x [B, T, ...]; the result is [B, T of this rank, ...]
// Errors  as gather_pieces
at::Tensor sum_pieces(const RegionCall& call, const at::Tensor& x);
// Returns the sum over ranks.
at::Tensor sum_of_ranks(const RegionCall& call, const at::Tensor& x);
// Returns the maximum over ranks.
at::Tensor max_of_ranks(const RegionCall& call, const at::Tensor& x);
// Returns x of each rank, in rank order.
// Shapes  x has the same shape on all ranks
std::vector<at::Tensor> of_all_ranks(const RegionCall& call, const at::Tensor& x);

// Returns how many adjacent ranks of this thread's region have the same `mine` of `whole` elements;
// without a region, the only rank has all.
// Errors  c10::Error if ranks do not have all elements equally often
int64_t num_copies(std::string_view op, int64_t mine, int64_t whole);

}  // namespace tenon
