// SPDX-License-Identifier: Apache-2.0
//
// Memory of one rank that other processes of its machine write to: a ring of bytes for each of
// them, and a bell that wakes the rank. Bytes alone: what is a message is memory_backend.cpp's.
// Invariants: a ring has one writer and one reader; a process that ends at any moment leaves all of
// it as it was last published; positions only grow.
// Threads: one writer and one reader of a ring; any for a bell.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <sys/types.h>

namespace tenon {

// Where a rank sleeps. In shared memory: a futex.
struct Bell {
  alignas(64) std::atomic<uint32_t> rings;
  std::atomic<uint32_t> num_sleepers;
  std::atomic<uint32_t> has_left;  // its rank reads and writes nothing any more

  void ring();
  // Returns false if the time is up, and nobody has rung since `rings` was `seen`.
  bool sleep(uint32_t seen, std::chrono::nanoseconds limit);
};

// The ends of a ring. In shared memory.
struct RingEnds {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  std::atomic<uint32_t> is_room_wanted;
};

// One process' view of a ring.
struct Ring {
  RingEnds* ends = nullptr;
  std::byte* memory = nullptr;
  uint64_t capacity = 0;

  // Of the writer. Copies as much as there is room for, and returns how much that is.
  uint64_t write(const std::byte* from, uint64_t bytes);
  uint64_t room() const;
  // Asks to be woken when there is more room than `room`; returns false if there is already.
  bool want_more_than(uint64_t room);

  // Of the reader. Copies at most `bytes`, and returns how many there were; `peek` leaves them.
  uint64_t read(std::byte* to, uint64_t bytes);
  uint64_t peek(std::byte* to, uint64_t bytes) const;
  uint64_t num_unread() const;
  // True once, if the writer has asked for room.
  bool take_request_for_room();
};

// The memory of one rank, in this process' address space.
class SharedInbox {
 public:
  // Makes this process' own, for `num_ranks` writers.
  // Throws std::system_error.
  static SharedInbox make(uint32_t num_ranks, uint64_t ring_bytes);
  // Opens that of another process, by its file there.
  static SharedInbox open(pid_t pid, int file, uint32_t num_ranks, uint64_t ring_bytes);

  SharedInbox() = default;
  SharedInbox(SharedInbox&& other) noexcept;
  SharedInbox& operator=(SharedInbox&& other) noexcept;
  ~SharedInbox();

  // Under which others may open it, until `forget_file`.
  int file() const { return file_; }
  void forget_file();

  Bell& bell() const;
  Ring ring_of(uint32_t writer) const;

 private:
  void map(int file, uint32_t num_ranks, uint64_t ring_bytes);

  int file_ = -1;
  std::byte* memory_ = nullptr;
  uint64_t bytes_ = 0;
  uint32_t num_ranks_ = 0;
  uint64_t ring_bytes_ = 0;
};

}  // namespace tenon
