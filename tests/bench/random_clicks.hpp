// SPDX-License-Identifier: Apache-2.0
//
// The data of the `sparse` workload: samples of 26 ids, 13 normal numbers and a label. An id is 63
// bits of a hash; ids of a column follow a power law over ten million values. The data are random:
// only the time of a step is measured.
#ifndef TENON_TESTS_BENCH_RANDOM_CLICKS_HPP
#define TENON_TESTS_BENCH_RANDOM_CLICKS_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

class RandomClicks {
 public:
  static constexpr int64_t kColumns = 26;
  static constexpr int64_t kNumbers = 13;

  explicit RandomClicks(int64_t samples)
      : samples_(samples),
        ids_(static_cast<size_t>(samples * kColumns)),
        numbers_(static_cast<size_t>(samples * kNumbers)),
        labels_(static_cast<size_t>(samples)) {
    std::mt19937_64 random(1);
    for (int64_t c = 0; c < kColumns; ++c) {
      // Rank r of U is drawn with a probability of about r^-a: the inverse of the integral.
      const double a = 1.05 + 0.15 * static_cast<double>(c) / (kColumns - 1);
      const double most = 1.0 - std::pow(kIds + 1.0, 1.0 - a);
      for (int64_t i = 0; i < samples; ++i) {
        const double u = static_cast<double>(random() >> 11) * 0x1p-53;
        const double rank = std::floor(std::pow(1.0 - u * most, 1.0 / (1.0 - a)));
        const auto id = static_cast<uint64_t>(std::min(std::max(rank, 1.0), kIds));
        ids_[static_cast<size_t>(c * samples + i)] =
            static_cast<int64_t>(mixed(id | static_cast<uint64_t>(c + 1) << 40) >> 1);
      }
    }
    std::normal_distribution<float> normal;
    for (float& x : numbers_) {
      x = normal(random);
    }
    for (float& label : labels_) {
      label = random() % 4 == 0 ? 1.0F : 0.0F;
    }
  }

  int64_t samples() const { return samples_; }
  int64_t id(int64_t column, int64_t sample) const {
    return ids_[static_cast<size_t>(column * samples_ + sample)];
  }
  const float* numbers(int64_t sample) const { return numbers_.data() + sample * kNumbers; }
  float label(int64_t sample) const { return labels_[static_cast<size_t>(sample)]; }

 private:
  static constexpr double kIds = 1e7;

  static uint64_t mixed(uint64_t x) {
    x += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }

  int64_t samples_;
  std::vector<int64_t> ids_;  // column by column
  std::vector<float> numbers_;
  std::vector<float> labels_;
};

#endif
