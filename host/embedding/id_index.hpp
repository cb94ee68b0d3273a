// SPDX-License-Identifier: Apache-2.0
//
// A growing hash map from any 64-bit id to a 32-bit number. The number is the row of a table or, if
// negative, the table's note about an id without a row. The map does not access rows.
//
// Buckets of 64 bytes, one cache line, hold five ids and their numbers. The upper bits of an id's
// hash select its home bucket. A full bucket passes ids on to the next bucket and counts them; a
// search ends at the first bucket that has passed none on. So erasing leaves no tombstones.
//
// The home is floor(hash * buckets / 2^64). This orders ids by hash, for any number of buckets. So
// the map grows by a quarter at a time, in place, from the end to the front. Each insertion moves
// about one bucket, so growing needs no rebuild, second copy or pause.
//
// Invariant: the ids that `visit` finds in a range of hashes depend on the content of the map, not
// on its history.
// Threads: several threads may call `find` while no other call runs; otherwise one call at a time.

#pragma once

#include "host/embedding/memory_region.hpp"
#include "host/tensor/philox.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon {

class IdIndex {
 public:
  static constexpr int32_t kNothing = INT32_MIN;

  IdIndex();

  int64_t size() const { return size_; }
  // Committed memory, in bytes.
  int64_t num_bytes() const { return static_cast<int64_t>(region_.committed()); }
  // Committed memory after one more insertion, in bytes.
  int64_t num_bytes_after_insert() const;

  static uint64_t hash(int64_t id) noexcept {
    // Differs from the hash that assigns ids to ranks, with which the ids of a rank would cluster.
    return mix_bits(static_cast<uint64_t>(id) ^ 0x6A09E667F3BCC909);
  }

  // Finds the number of each id; kNothing for ids that the map does not contain.
  // Shapes  ids [n], numbers [n]
  void find(std::span<const int64_t> ids, int32_t* numbers) const noexcept;

  // Hints that `id` will be looked up soon. Always inline: otherwise the compiler assumes that the
  // function has no effect, and drops the call.
  [[gnu::always_inline]] void prefetch(int64_t id) const noexcept {
    __builtin_prefetch(&buckets_[home_of(hash(id))]);
  }

  // Returns the number of `id`, or null. The pointer is valid until the next insertion or removal.
  int32_t* find_one(int64_t id) noexcept;

  // Inserts an id that the map does not contain.
  //
  // Errors  table.full: the system has no more memory; the map is unchanged
  void insert(int64_t id, int32_t number);

  // Calls visit(hash, id, number) for each id whose hash lies in [first, last], both included, in
  // no particular order. Removes the ids for which `visit` returns true; `visit` may change the
  // number.
  template <class Visit>
  void visit(uint64_t first, uint64_t last, Visit&& visit);

 private:
  static constexpr uint32_t kSlots = 5;
  static constexpr uint32_t kUsed = 7;    // mask of the number of used slots, which come first
  static constexpr uint32_t kPassed = 8;  // added for each id passed on
  struct alignas(64) Bucket {
    int64_t ids[kSlots];
    int32_t numbers[kSlots];
    uint32_t state;  // used slots + kPassed * ids passed on
  };
  static_assert(sizeof(Bucket) == 64);

  static uint64_t scaled(uint64_t hash, uint64_t n) noexcept {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * n) >> 64);
  }
  uint64_t home_of(uint64_t hash) const noexcept {
    const uint64_t old_home = scaled(hash, old_size_);
    const uint64_t new_home = scaled(hash, new_size_);
    return old_home < frontier_ ? old_home : new_home;
  }
  static uint32_t match(const Bucket& bucket, int64_t id) noexcept;
  void find_anywhere(std::span<const int64_t> ids, int32_t* numbers) const noexcept;
  void find_avx512(std::span<const int64_t> ids, int32_t* numbers) const noexcept;

  void store(uint64_t home, int64_t id, int32_t number) noexcept;
  void remove(uint64_t home, uint64_t at, uint32_t slot) noexcept;
  void begin_growth();
  void move_one_bucket();
  void ensure_beyond();

  MemoryRegion region_;
  Bucket* buckets_ = nullptr;  // in the region
  // Ids whose old home is below `frontier_` use old_size_ buckets, all other ids new_size_.
  uint64_t old_size_;
  uint64_t new_size_;
  uint64_t frontier_ = 0;
  uint64_t last_used_ = 0;  // no bucket after this one was ever written
  int64_t size_ = 0;
  // The map grows between these sizes. At growth_end_, the frontier is 0.
  int64_t growth_begin_;
  int64_t growth_end_;
};

template <class Visit>
void IdIndex::visit(uint64_t first, uint64_t last, Visit&& visit) {
  const uint64_t last_home = home_of(last);
  // Starts at the first bucket that may hold ids of the range. Continues past the last home while
  // buckets have passed ids on.
  for (uint64_t at = home_of(first);; ++at) {
    Bucket& bucket = buckets_[at];
    for (uint32_t slot = 0; slot < (bucket.state & kUsed);) {
      const uint64_t h = hash(bucket.ids[slot]);
      if (h >= first && h <= last && visit(h, bucket.ids[slot], bucket.numbers[slot])) {
        remove(home_of(h), at, slot);  // the bucket's last id moves to this slot
      } else {
        ++slot;
      }
    }
    if (at >= last_home && bucket.state < kPassed) {
      break;
    }
  }
}

}  // namespace tenon
