// SPDX-License-Identifier: Apache-2.0
//
// An attribute for functions with plain loops. On x86, each is compiled for several vector widths,
// and the loader picks one. Sanitizers and other compilers get one version.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TENON_SIMD __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TENON_SIMD
#endif
