// SPDX-License-Identifier: Apache-2.0
//
// Memory of one rank that other processes of its machine write to: one ring of bytes for each
// writer, and a bell that wakes the rank. It carries only bytes; memory_backend.cpp defines
// messages.
// Invariants: a ring has one writer and one reader; a process that ends at any moment leaves the
// memory as last published; positions only grow.
// Threads: one writer and one reader for each ring; any for a bell.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <sys/types.h>

namespace tenon {

// Wakes a sleeping rank. In shared memory: a futex.
struct Bell {
  alignas(64) std::atomic<uint32_t> rings;
  std::atomic<uint32_t> num_sleepers;
  std::atomic<uint32_t> has_left;  // the rank no longer reads or writes

  void ring();
  // Waits while `rings` equals `seen`. Returns false if `limit` expires first.
  bool sleep(uint32_t seen, std::chrono::nanoseconds limit);
};

// The write and read positions of a ring. In shared memory.
struct RingEnds {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  std::atomic<uint32_t> is_room_wanted;
};

// One process's view of a ring.
struct Ring {
  RingEnds* ends = nullptr;
  std::byte* memory = nullptr;
  uint64_t capacity = 0;

  // For the writer. Copies as many bytes as fit, and returns their number.
  uint64_t write(const std::byte* from, uint64_t bytes);
  uint64_t room() const;
  // Requests a wake-up when there is more room than `room`; returns false if there already is.
  bool want_more_than(uint64_t room);

  // For the reader. Copies at most `bytes` bytes, and returns their number; `peek` leaves them in
  // the ring.
  uint64_t read(std::byte* to, uint64_t bytes);
  uint64_t peek(std::byte* to, uint64_t bytes) const;
  uint64_t num_unread() const;
  // Returns true once for each request of the writer for room.
  bool take_request_for_room();
};

// The memory of one rank, in the address space of this process.
class SharedInbox {
 public:
  // Creates the memory of this process, for `num_ranks` writers.
  // Throws std::system_error.
  static SharedInbox make(uint32_t num_ranks, uint64_t ring_bytes);
  // Opens the memory of another process by its file descriptor there.
  static SharedInbox open(pid_t pid, int file, uint32_t num_ranks, uint64_t ring_bytes);

  SharedInbox() = default;
  SharedInbox(SharedInbox&& other) noexcept;
  SharedInbox& operator=(SharedInbox&& other) noexcept;
  ~SharedInbox();

  // Returns the descriptor by which other processes may open the memory, until `forget_file`.
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
