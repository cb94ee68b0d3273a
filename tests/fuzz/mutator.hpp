// SPDX-License-Identifier: Apache-2.0
//
// Text turned into text that is nearly right. Not for making texts from nothing: what is wholly
// wrong is refused at once and tests little. Invariant: the same seed and calls give the same text
// on every machine. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Texts are not made longer than this, but for what they are made from.
inline constexpr std::size_t kMaxMutatedSize = std::size_t{1} << 17;

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t number();
  std::size_t below(std::size_t n);  // n is above 0
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& values) {
    return values[below(values.size())];
  }

  // `text` after one to four changes of bytes: flipped, removed, repeated, moved, cut off; `words`
  // and parts of `others` put in; deep nesting, long numbers, long runs, zero bytes, bytes that are
  // no UTF-8.
  std::string mutated(std::string text,
                      const std::vector<std::string>& words,
                      const std::vector<std::string>& others);

  // A number as text: of the borders of types, very long, or hardly one.
  std::string odd_number();

  // Bytes that are hard to read: no UTF-8, zeros, controls, a byte order mark.
  std::string odd_bytes();

 private:
  void change(std::string& text,
              const std::vector<std::string>& words,
              const std::vector<std::string>& others);
  void insert(std::string& text, std::string_view part);

  std::uint64_t state_;
};

}  // namespace tenon
