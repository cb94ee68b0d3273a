// SPDX-License-Identifier: Apache-2.0
//
// A hash of training state, to check whether two runs ended with the same bits. It guards against
// mistakes, not against malice.
// Invariant: the same bytes in the same pieces give the same text on machines of equal byte order.
// Threads: one instance, one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tenon {

class StateHash {
 public:
  // Adds a piece. The boundaries of pieces affect the hash.
  void add(const void* bytes, size_t size);

  // Returns the hash of all pieces so far, as 16 hexadecimal digits.
  std::string text() const;

 private:
  static constexpr size_t kLanes = 4;  // multiplied in parallel by a processor
  std::array<uint64_t, kLanes> lanes_ = {1, 2, 3, 4};
};

}  // namespace tenon
