// SPDX-License-Identifier: Apache-2.0
//
// Compiles a function once for each width of vector that x86 machines have, and picks one when the
// library is loaded. The loops themselves are plain C++, written so that a compiler can vectorise
// them.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LLAMA_SIMD __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LLAMA_SIMD
#endif
