// SPDX-License-Identifier: Apache-2.0
//
// What simd_test.cpp asks of lanes.hpp; only for each_machine.hpp. `n` is a multiple of the lanes.

inline void exponentials(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    store(y + i, exp_of(load(x + i)));
  }
}

inline float sum_all(const float* x, int64_t n) {
  Floats sum = {};
  for (int64_t i = 0; i < n; i += kLanes) {
    sum += load(x + i);
  }
  return sum_of(sum);
}

inline float largest_of_all(const float* x, int64_t n) {
  Floats largest = load(x);
  for (int64_t i = 0; i < n; i += kLanes) {
    largest = larger(load(x + i), largest);
  }
  return largest_of(largest);
}
