// SPDX-License-Identifier: Apache-2.0
//
// The kernels that row_math_test.cpp runs; only for each_machine.hpp.
#include <tenon/simd/softmax_kernels.hpp>

#include "host/kernels/row_math_kernels.hpp"
