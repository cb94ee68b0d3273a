// SPDX-License-Identifier: Apache-2.0
//
// Checksums of what is kept: XXH3, as the program xxhsum computes it.
// Source: xxhash.com.
// Threads: any; an object belongs to one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tenon {

// XXH3-64 of bytes that come one after the other.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  void add(std::span<const std::byte> bytes);
  // Of all so far.
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// XXH128, as 32 digits.
std::string xxh128_text(std::span<const std::byte> bytes);
std::string xxh128_text(const std::string& text);
// Of a file; "" where it cannot be read.
std::string xxh128_of_file(const std::string& path);

// "0123456789abcdef" and back.
std::string xxh3_text(uint64_t value);

}  // namespace tenon
