// SPDX-License-Identifier: Apache-2.0
//
// The kernels of rows.cpp for one instruction set; included only by each_machine.hpp.
#include <tenon/simd/softmax_kernels.hpp>

inline constexpr RowMath<float> kFloatRows{
    stats_of_row<float>, sum_of_row<float>, gradient_of_row<float>};
inline constexpr RowMath<Bf16> kBf16Rows{
    stats_of_row<Bf16>, sum_of_row<Bf16>, gradient_of_row<Bf16>};
