// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/exact_sum.hpp"

#include "host/error/assert.hpp"

#include <cstddef>

namespace tenon {
namespace {

// Less than the limit of exact_words.hpp, so that two sums can be added before their carries.
constexpr int64_t kMaxAdded = int64_t{1} << 30;

}  // namespace

void ExactSum::add(std::span<const double> values) {
  TENON_ASSERT(values.size() < static_cast<size_t>(kMaxAdded), "a span of values");
  if (num_added_ + static_cast<int64_t>(values.size()) >= kMaxAdded) {
    carry();
  }
  num_added_ += static_cast<int64_t>(values.size());
  int64_t* const words = words_.data();
  for (const double value : values) {
    const ExactTerm term = exact_term(value);
    words[term.word] += term.digits[0];
    if (term.num_words == 3) {
      words[term.word + 1] += term.digits[1];
      words[term.word + 2] += term.digits[2];
    }
  }
}

void ExactSum::add(const ExactSum& other) {
  if (num_added_ + other.num_added_ >= kMaxAdded) {
    ExactSum carried = other;
    carried.carry();
    carry();
    add(carried);
    return;
  }
  num_added_ += other.num_added_;
  for (size_t k = 0; k < words_.size(); ++k) {
    words_[k] += other.words_[k];
  }
}

std::span<int64_t, kExactWords> ExactSum::words() {
  carry();
  num_added_ = kMaxAdded;  // the caller may add the words of as many ranks
  return words_;
}

double ExactSum::value() const {
  std::array<int64_t, kExactWords> words = words_;
  carry_exact(words.data());
  return exact_value(words.data());
}

void ExactSum::carry() {
  carry_exact(words_.data());
  num_added_ = 1;
}

}  // namespace tenon
