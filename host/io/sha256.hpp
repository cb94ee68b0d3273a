// SPDX-License-Identifier: Apache-2.0
//
// SHA-256, for hashes that must hold against intent. checksum.hpp has faster sums, which only find
// accidents.
// Source: FIPS 180-4; as computed by the program sha256sum.
// Threads: any; one thread at a time per object.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

// Computes the SHA-256 of a sequence of bytes, added in parts.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void add(std::span<const std::byte> bytes);
  // Returns the hash of all bytes added as 64 hexadecimal digits. Add nothing afterwards.
  std::string text();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the hash of a text as 64 hexadecimal digits.
std::string sha256_text(std::string_view text);

}  // namespace tenon
