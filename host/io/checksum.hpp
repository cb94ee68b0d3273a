// SPDX-License-Identifier: Apache-2.0
//
// Checksums of stored data: XXH3, as computed by the program xxhsum.
// Source: xxhash.com.
// Threads: any; one thread at a time per object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tenon {

// Computes the XXH3-64 of a sequence of bytes, added in parts.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  void add(std::span<const std::byte> bytes);
  // Returns the checksum of all bytes added so far.
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the XXH128 as 32 hexadecimal digits.
std::string xxh128_text(std::span<const std::byte> bytes);
std::string xxh128_text(const std::string& text);
// Returns the XXH128 of a file; "" if it cannot be read.
std::string xxh128_of_file(const std::string& path);

// Returns a checksum as 16 hexadecimal digits: "0123456789abcdef".
std::string xxh3_text(uint64_t value);

}  // namespace tenon
