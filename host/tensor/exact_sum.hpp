// SPDX-License-Identifier: Apache-2.0
//
// An exact sum of fp64 values that are not negative. It has the same bits for any order of its
// values, and for any way of splitting them over sums, threads and ranks.
// Limits: any number of values. Between two calls of `words`, ranks may add up to 2^30 sums.
// Threads: as a value.
#pragma once

#include "host/tensor/exact_words.hpp"

#include <array>
#include <cstdint>
#include <span>

namespace tenon {

class ExactSum {
 public:
  // Adds values, none of which is negative: infinities and NaNs are counted.
  void add(std::span<const double> values);
  void add(double value) { add(std::span(&value, 1)); }
  void add(const ExactSum& other);

  // Returns the sum for an exchange: the caller replaces each word by its sum over ranks.
  std::span<int64_t, kExactWords> words();

  // Returns the sum, rounded once to nearest, ties to even. NaN if a value was NaN; infinity if a
  // value was infinite, or if the sum exceeds fp64.
  double value() const;

 private:
  void carry();

  std::array<int64_t, kExactWords> words_{};
  int64_t num_added_ = 0;  // values in the words since the last carry
};

}  // namespace tenon
