// SPDX-License-Identifier: Apache-2.0
//
// The kernels of head_rows.cpp for one instruction set; included only by each_machine.hpp.
#include <tenon/simd/softmax_kernels.hpp>

inline constexpr HeadMath kHeadMath{stats_of_row<float>, sum_of_row<float>, gradient_of_row<float>};
