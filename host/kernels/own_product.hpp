// SPDX-License-Identifier: Apache-2.0
//
// A matrix product in fp32 on the CPU by Tenon's own kernels. It is faster than libraries where a
// factor is narrow, since it makes no pass over the result but one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace tenon {

// Up to this number, computing the products takes no longer than reading one factor.
inline constexpr int64_t kFewRows = 8;

// a b + bias: [M, N], dense. The same bits for any number of threads.
// Shapes  a_MK and b_KN with any strides, not empty; bias_N optional
//
// With few rows (is_of_few_rows), the product takes as long as reading b.
at::Tensor own_product(const at::Tensor& a_MK,
                       const at::Tensor& b_KN,
                       const std::optional<at::Tensor>& bias_N);

// Returns the bytes that own_product allocates beside its result, for a product that packs its
// factors on `threads` threads.
int64_t own_product_bytes(int64_t M, int64_t N, int64_t K, int64_t threads);

// Whether own_product reads the factors as they are: a has few rows, and sums over K run along
// dense rows of a and dense columns of b.
bool is_of_few_rows(const at::Tensor& a_MK, const at::Tensor& b_KN);

}  // namespace tenon
