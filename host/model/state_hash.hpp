// SPDX-License-Identifier: Apache-2.0
//
// A hash of what training has made, to tell whether two runs ended with the same bits. It guards
// against mistakes, not against malice. Invariant: the same bytes in the same pieces give the same
// text, on each machine with the same order of bytes. Threads: one instance, one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tenon {

class StateHash {
 public:
  // Adds a piece; where it begins and ends counts too.
  void add(const void* bytes, size_t size);

  // Of all pieces so far, as 16 hexadecimal digits.
  std::string text() const;

 private:
  static constexpr size_t kLanes = 4;  // which a processor multiplies side by side
  std::array<uint64_t, kLanes> lanes_ = {1, 2, 3, 4};
};

}  // namespace tenon
