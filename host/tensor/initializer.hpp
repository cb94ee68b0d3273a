// SPDX-License-Identifier: Apache-2.0
//
// Initial values of parameters (TENON_INIT_* of model.h). Each element is a function of (seed, name
// of the parameter, its index), so that any slice, on any number of ranks, gets the same bits.
// Modules with separate initial values (TENON_INIT_MODULE) are not handled here.

#pragma once

#include "host/tensor/tensor_piece.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace tenon {

// True if fill_init supports `kind`, and a and b are valid for it: finite, a standard deviation
// that is not negative, a <= b for a uniform distribution.
bool is_legal_init(uint32_t kind, double a, double b) noexcept;

// Fills `values` with the elements of a piece of the parameter `name`, in order. Values are
// computed in double, rounded to fp32 and then to their dtype, so that a bf16 parameter starts as
// the rounded fp32 one; fp64 keeps the double.
//
// Shapes   values: any of the piece's numel(), contiguous, f64, f32, bf16 or f16, on any device
// Errors   tensor.bad_argument for an illegal initializer or other values
// Threads  [main]; runs on the compute threads
void fill_init(uint32_t kind,
               double a,
               double b,
               uint64_t seed,
               std::string_view name,
               const TensorPiece& piece,
               const at::Tensor& values);

}  // namespace tenon
