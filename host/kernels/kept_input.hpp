// SPDX-License-Identifier: Apache-2.0
//
// What a product keeps of its input for backward. If one of the host's norms made the input, or the
// activation of a gated layer, that is nothing but what the maker keeps anyway: backward computes
// the input again, to the same bits, by a pass that costs little beside the product. If tensor_in()
// gathered the input from pieces of T, a product keeps what tensor_in() keeps of this rank's piece,
// and backward gathers again, once for all products of the input.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <cstddef>

namespace tenon {

// Tensors that keep_input() appends.
constexpr size_t kKeptTensors = 3;

// For forward: appends to `saved`, a list for save_for_backward, what kept_input() needs; nothing
// defined if `is_needed` is false.
void keep_input(torch::autograd::AutogradContext& context,
                const at::Tensor& x,
                bool is_needed,
                torch::autograd::variable_list& saved);

// For backward: returns the input, whose tensors start at saved[first].
// Shapes  the rows of the input, [M, K]
at::Tensor kept_input(const torch::autograd::AutogradContext& context,
                      const torch::autograd::variable_list& saved,
                      size_t first);

// Whether keep_input() would keep a piece of x.
bool is_gathered_input(const at::Tensor& x);

// Whether a gradient by one of the tensors is wanted, for forward.
bool any_requires_grad(at::TensorList tensors);

}  // namespace tenon
