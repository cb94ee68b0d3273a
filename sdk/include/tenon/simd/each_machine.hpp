// SPDX-License-Identifier: Apache-2.0
//
// Compiles the file SIMD_KERNELS, a quoted path in a macro, once per x86 vector width: in
// namespaces simd_basic, simd_avx2 and simd_avx512, each after its own lanes.hpp. Include this from
// one source file only, after all headers that the kernels need: headers included here would be
// compiled for newer machines. No include guard. Kernels must not use lambdas, since compilers drop
// the target attributes in them.
#include "bf16.hpp"
#include "machine.hpp"

#if TENON_SIMD_X86
#include <immintrin.h>
#endif

namespace simd_basic {
#define SIMD_LANES 4
#include "lanes.hpp"
#include SIMD_KERNELS
#undef SIMD_LANES
}  // namespace simd_basic

#if TENON_SIMD_X86

#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace simd_avx2 {
#define SIMD_LANES 8
#include "lanes.hpp"
#include SIMD_KERNELS
#undef SIMD_LANES
}  // namespace simd_avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx2,fma")
namespace simd_avx512 {
#define SIMD_LANES 16
#include "lanes.hpp"
#include SIMD_KERNELS
#undef SIMD_LANES
}  // namespace simd_avx512
#pragma GCC pop_options

#endif
