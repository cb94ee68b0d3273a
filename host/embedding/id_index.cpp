// SPDX-License-Identifier: Apache-2.0

#include "host/embedding/id_index.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>

namespace tenon {
namespace {

constexpr uint64_t kFirstSize = 32;  // buckets of a new index
// Committed buckets after the last used one, for ids that are passed on. More than the insertions
// between two calls of ensure_beyond() can fill.
constexpr uint64_t kBeyond = 32;
constexpr size_t kAhead = 24;  // prefetched lookups: cache lines that a core can wait for
constexpr size_t kReserve = size_t{1} << 30;  // initial address space

// Percentage of occupied slots at which growing starts. When it ends, buckets that have not moved
// yet hold a quarter more.
constexpr int64_t kFullPercent = 68;
constexpr uint64_t kGrowth = 4;

}  // namespace

IdIndex::IdIndex()
    : region_(kReserve),
      old_size_(kFirstSize),
      new_size_(kFirstSize),
      growth_begin_(static_cast<int64_t>(kFirstSize * kSlots) * kFullPercent / 100),
      growth_end_(growth_begin_) {
  region_.commit((kFirstSize + kBeyond) * sizeof(Bucket));
  buckets_ = reinterpret_cast<Bucket*>(region_.data());
}

// Returns the slots that hold `id`, as bits. Without branches, because the slot is unpredictable.
uint32_t IdIndex::match(const Bucket& bucket, int64_t id) noexcept {
  uint32_t equal = 0;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    equal |= static_cast<uint32_t>(bucket.ids[slot] == id) << slot;
  }
  return equal & ((1U << (bucket.state & kUsed)) - 1U);
}

// The loop of `find` for one instruction set; MATCH(bucket, id) is its version of `match`. A macro,
// because a function for one target cannot be inlined into a template for all targets.
#define TENON_FIND_IDS(MATCH)                                  \
  const size_t n = ids.size();                                 \
  uint64_t homes[kAhead];                                      \
  for (size_t i = 0; i < std::min(kAhead, n); ++i) {           \
    homes[i] = home_of(hash(ids[i]));                          \
    __builtin_prefetch(&buckets_[homes[i]]);                   \
  }                                                            \
  for (size_t i = 0, turn = 0; i < n; ++i) {                   \
    const uint64_t home = homes[turn];                         \
    if (i + kAhead < n) {                                      \
      homes[turn] = home_of(hash(ids[i + kAhead]));            \
      __builtin_prefetch(&buckets_[homes[turn]]);              \
    }                                                          \
    turn = turn + 1 == kAhead ? 0 : turn + 1;                  \
    numbers[i] = kNothing;                                     \
    for (const Bucket* bucket = &buckets_[home];; ++bucket) {  \
      const uint32_t equal = MATCH(*bucket, ids[i]);           \
      if (equal != 0) {                                        \
        numbers[i] = bucket->numbers[std::countr_zero(equal)]; \
        break;                                                 \
      }                                                        \
      if (bucket->state < kPassed) {                           \
        break;                                                 \
      }                                                        \
    }                                                          \
  }

void IdIndex::find_anywhere(std::span<const int64_t> ids, int32_t* numbers) const noexcept {
  TENON_FIND_IDS(match)
}

#if defined(__x86_64__)
#define TENON_MATCH_AVX512(bucket, id)                                                  \
  (_mm512_cmpeq_epi64_mask(_mm512_load_si512(&(bucket)), _mm512_set1_epi64(id)) & 31U & \
   ((1U << ((bucket).state & kUsed)) - 1U))
__attribute__((target("avx512f,bmi"))) void IdIndex::find_avx512(std::span<const int64_t> ids,
                                                                 int32_t* numbers) const noexcept {
  TENON_FIND_IDS(TENON_MATCH_AVX512)
}
#undef TENON_MATCH_AVX512
#endif
#undef TENON_FIND_IDS

void IdIndex::find(std::span<const int64_t> ids, int32_t* numbers) const noexcept {
#if defined(__x86_64__)
  static const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("bmi");
  if (has_avx512) {
    find_avx512(ids, numbers);
    return;
  }
#endif
  find_anywhere(ids, numbers);
}

int32_t* IdIndex::find_one(int64_t id) noexcept {
  for (Bucket* bucket = &buckets_[home_of(hash(id))];; ++bucket) {
    const uint32_t equal = match(*bucket, id);
    if (equal != 0) {
      return &bucket->numbers[std::countr_zero(equal)];
    }
    if (bucket->state < kPassed) {
      return nullptr;
    }
  }
}

int64_t IdIndex::num_bytes_after_insert() const {
  if (frontier_ > 0 || size_ < growth_end_) {
    return num_bytes();
  }
  const uint64_t buckets = new_size_ + std::max<uint64_t>(1, new_size_ / kGrowth) + kBeyond;
  return std::max(num_bytes(),
                  static_cast<int64_t>(MemoryRegion::rounded(buckets * sizeof(Bucket))));
}

void IdIndex::begin_growth() {
  const uint64_t larger = new_size_ + std::max<uint64_t>(1, new_size_ / kGrowth);
  region_.commit((larger + kBeyond) * sizeof(Bucket));
  buckets_ = reinterpret_cast<Bucket*>(region_.data());
  old_size_ = new_size_;
  new_size_ = larger;
  frontier_ = old_size_;
  growth_begin_ = growth_end_;
  growth_end_ = static_cast<int64_t>(new_size_ * kSlots) * kFullPercent / 100;
}

// Stores an id in the first bucket from `home` on that has a free slot.
void IdIndex::store(uint64_t home, int64_t id, int32_t number) noexcept {
  uint64_t at = home;
  while ((buckets_[at].state & kUsed) == kSlots) {
    buckets_[at].state += kPassed;
    ++at;
  }
  Bucket& bucket = buckets_[at];
  const uint32_t slot = bucket.state & kUsed;
  bucket.ids[slot] = id;
  bucket.numbers[slot] = number;
  ++bucket.state;
  last_used_ = std::max(last_used_, at);
}

void IdIndex::remove(uint64_t home, uint64_t at, uint32_t slot) noexcept {
  for (uint64_t passed = home; passed < at; ++passed) {
    buckets_[passed].state -= kPassed;
  }
  Bucket& bucket = buckets_[at];
  --bucket.state;
  const uint32_t last = bucket.state & kUsed;
  bucket.ids[slot] = bucket.ids[last];
  bucket.numbers[slot] = bucket.numbers[last];
  --size_;
}

// Moves the ids of the last old home to their new homes, which lie at or after the old one.
void IdIndex::move_one_bucket() {
  const uint64_t home = frontier_ - 1;
  for (bool is_done = false; !is_done;) {
    ensure_beyond();
    is_done = true;
    // Takes out as many ids as fit in these arrays. Usually all ids are in their home bucket.
    constexpr size_t kMost = 64;
    int64_t ids[kMost];
    int32_t numbers[kMost];
    uint64_t new_homes[kMost];
    size_t n = 0;
    for (uint64_t at = home;; ++at) {
      Bucket& bucket = buckets_[at];
      const bool are_passed_on = bucket.state >= kPassed;
      const uint32_t used = bucket.state & kUsed;
      uint32_t kept = 0;
      if (n + used > kMost) {
        is_done = false;
        break;
      }
      for (uint32_t slot = 0; slot < used; ++slot) {
        const int64_t id = bucket.ids[slot];
        const int32_t number = bucket.numbers[slot];
        const uint64_t h = hash(id);
        const bool goes = scaled(h, old_size_) == home;
        ids[n] = id;
        numbers[n] = number;
        new_homes[n] = scaled(h, new_size_);
        n += goes ? 1 : 0;
        bucket.ids[kept] = id;
        bucket.numbers[kept] = number;
        kept += goes ? 0 : 1;
      }
      const uint32_t gone = used - kept;
      bucket.state -= gone;
      for (uint64_t passed = home; passed < at; ++passed) {
        buckets_[passed].state -= gone * kPassed;
      }
      if (!are_passed_on) {
        break;
      }
    }
    for (size_t i = 0; i < n; ++i) {
      store(new_homes[i], ids[i], numbers[i]);
    }
  }
  --frontier_;
}

void IdIndex::ensure_beyond() {
  const size_t wanted = (std::max(last_used_, new_size_) + kBeyond) * sizeof(Bucket);
  if (wanted > region_.committed()) {
    region_.commit(wanted);
    buckets_ = reinterpret_cast<Bucket*>(region_.data());
  }
}

void IdIndex::insert(int64_t id, int32_t number) {
  if (frontier_ == 0 && size_ >= growth_end_) {
    begin_growth();
  }
  ensure_beyond();
  store(home_of(hash(id)), id, number);
  ++size_;
  // The frontier falls in proportion to the insertions left until growing ends.
  const auto span = static_cast<double>(growth_end_ - growth_begin_);
  const double due = static_cast<double>(old_size_) * static_cast<double>(growth_end_ - size_);
  while (frontier_ > 0 && static_cast<double>(frontier_) * span > due) {
    move_one_bucket();
  }
}

}  // namespace tenon
