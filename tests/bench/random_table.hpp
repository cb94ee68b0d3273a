// SPDX-License-Identifier: Apache-2.0
//
// The data of the `mlp` workload: 4096 rows of 64 normal numbers, each with one of ten labels. The
// data are random: only the time of a step is measured.
#ifndef TENON_TESTS_BENCH_RANDOM_TABLE_HPP
#define TENON_TESTS_BENCH_RANDOM_TABLE_HPP

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

class RandomTable {
 public:
  static constexpr int64_t kRows = 4096;
  static constexpr int64_t kWidth = 64;
  static constexpr int64_t kClasses = 10;

  RandomTable() : x_(kRows * kWidth), labels_(kRows) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (float& value : x_) {
      value = normal(random);
    }
    for (int64_t& label : labels_) {
      label = static_cast<int64_t>(random() % kClasses);
    }
  }

  // Copies rows [first, first + n); after the last row, it continues with the first.
  void copy(int64_t first, int64_t n, float* x, int64_t* labels) const {
    for (int64_t i = 0; i < n; ++i) {
      copy_row((first + i) % kRows, x + i * kWidth, labels + i);
    }
  }
  void copy_row(int64_t row, float* x, int64_t* label) const {
    std::memcpy(x, x_.data() + row * kWidth, kWidth * sizeof(float));
    *label = labels_[static_cast<size_t>(row)];
  }

 private:
  std::vector<float> x_;
  std::vector<int64_t> labels_;
};

#endif
