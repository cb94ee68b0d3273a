// SPDX-License-Identifier: Apache-2.0
//
// Selects the widest compiled instruction set that this machine supports; see each_machine.hpp. The
// choice is made once per process.
#pragma once

#include <cstdlib>
#include <string_view>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TENON_SIMD_X86 1
#else
#define TENON_SIMD_X86 0
#endif

enum class Machine { kBasic, kAvx2, kAvx512 };

// The widest that the processor has.
inline Machine widest_machine() {
#if TENON_SIMD_X86
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") ? Machine::kAvx512
         : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")       ? Machine::kAvx2
                                                                                 : Machine::kBasic;
#else
  return Machine::kBasic;
#endif
}

// The widest, or the narrower one that the variable TENON_SIMD names: "basic" or "avx2".
inline Machine this_machine() {
#if TENON_SIMD_X86
  static const Machine machine = [] {
    const char* const limit = std::getenv("TENON_SIMD");
    const Machine widest = widest_machine();
    if (limit == nullptr || widest == Machine::kBasic) {
      return widest;
    }
    const std::string_view name = limit;
    return name == "basic" ? Machine::kBasic : name == "avx2" ? Machine::kAvx2 : widest;
  }();
  return machine;
#else
  return Machine::kBasic;
#endif
}

// Selects this machine's version of a function compiled by each_machine.hpp:
// SIMD_CHOICE(f)(arguments).
#if TENON_SIMD_X86
#define SIMD_CHOICE(function)                                  \
  (this_machine() == Machine::kAvx512 ? &simd_avx512::function \
   : this_machine() == Machine::kAvx2 ? &simd_avx2::function   \
                                      : &simd_basic::function)
#else
#define SIMD_CHOICE(function) (&simd_basic::function)
#endif
