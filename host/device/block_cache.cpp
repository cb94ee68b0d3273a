// SPDX-License-Identifier: Apache-2.0

#include "host/device/block_cache.hpp"

#include "host/device/large_blocks.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <array>
#include <atomic>
#include <bit>
#include <malloc.h>
#include <mutex>

namespace tenon {
namespace {

constexpr size_t kLeast = 64;          // bytes; also the alignment
constexpr size_t kMost = 256 * 1024;   // bytes; larger blocks cost more to fill than to find
constexpr size_t kMostKept = 2 << 20;  // bytes per block size
// Address space for larger blocks: more than the memory of any machine.
constexpr size_t kLargeRange = size_t{16} << 40;

// Four sizes per octave from kLeast to kMost: 64, 128, 192, 256, 320, 384, 448, 512, 640, ...
constexpr size_t kStepsAnOctave = 4;

// Returns the number of the smallest size that is at least `bytes`.
constexpr size_t size_above(size_t bytes) {
  if (bytes <= kStepsAnOctave * kLeast) {
    return bytes <= kLeast ? 0 : (bytes - 1) / kLeast;
  }
  const size_t octave = std::bit_width(bytes - 1) - std::bit_width(kStepsAnOctave * kLeast);
  return octave * kStepsAnOctave + ((bytes - 1) >> (octave + std::bit_width(kLeast) - 1));
}

constexpr size_t size_of(size_t number) {
  if (number < kStepsAnOctave) {
    return (number + 1) * kLeast;
  }
  const size_t octave = number / kStepsAnOctave - 1;
  return (kStepsAnOctave + number % kStepsAnOctave + 1) * kLeast << octave;
}

constexpr size_t kSizes = size_above(kMost) + 1;

constexpr bool sizes_are_consistent() {
  for (size_t i = 0; i < kSizes; ++i) {
    const bool is_exact = size_above(size_of(i)) == i && size_above(size_of(i) + 1) == i + 1;
    if (!is_exact || size_of(i) % kLeast != 0) {
      return false;
    }
  }
  return size_above(1) == 0 && size_of(kSizes - 1) == kMost;
}
static_assert(sizes_are_consistent());

// The freed blocks of one size, linked through their first bytes.
class FreeBlocks {
 public:
  void* take(size_t size) {
    const std::lock_guard lock(mutex_);
    Block* const block = first_;
    if (block != nullptr) {
      first_ = block->next;
      kept_ -= size;
    }
    return block;
  }

  // Returns true if the block was kept.
  bool keep(void* memory, size_t size) {
    const std::lock_guard lock(mutex_);
    if (kept_ + size > kMostKept) {
      return false;
    }
    first_ = new (memory) Block{first_};
    kept_ += size;
    return true;
  }

  size_t kept() const {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

 private:
  struct Block {
    Block* next;
  };
  mutable std::mutex mutex_;
  Block* first_ = nullptr;
  size_t kept_ = 0;  // bytes
};

// Bytes in use now and at the peak, on a separate cache line.
class alignas(64) InUse {
 public:
  void add(size_t bytes) {
    const int64_t now = bytes_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed) +
                        static_cast<int64_t>(bytes);
    int64_t most = most_.load(std::memory_order_relaxed);
    while (now > most && !most_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
  }
  void remove(size_t bytes) {
    bytes_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  }
  TensorMemory read() const { return {.bytes = bytes_, .peak_bytes = most_}; }

 private:
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<int64_t> most_ = 0;
};

class BlockCache final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = nullptr;
    if (bytes > 0) {
      memory = find(bytes);
      in_use_.add(size_in_use(memory));
    }
    c10::profiledCPUMemoryReporter().New(memory, bytes);
    return {memory, memory, &BlockCache::free, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &BlockCache::free; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  TensorMemory in_use() const { return in_use_.read(); }

  size_t kept() const {
    size_t sum = 0;
    for (const FreeBlocks& blocks : blocks_) {
      sum += blocks.kept();
    }
    return sum;
  }

 private:
  void* find(size_t bytes) {
    if (bytes > kMost) {
      void* const large = large_.take(bytes);
      return large != nullptr ? large : allocate_anew(bytes);
    }
    const size_t number = size_above(bytes);
    void* const memory = blocks_[number].take(size_of(number));
    return memory != nullptr ? memory : allocate_anew(size_of(number));
  }

  size_t size_in_use(void* memory) const {
    return large_.owns(memory) ? large_.size_of(memory) : malloc_usable_size(memory);
  }

  void* allocate_anew(size_t bytes) {
    try {
      return c10::alloc_cpu(bytes);
    } catch (const c10::Error&) {
      give_all_back();
      return c10::alloc_cpu(bytes);
    }
  }

  void give_all_back() {
    for (size_t i = 0; i < kSizes; ++i) {
      while (void* const memory = blocks_[i].take(size_of(i))) {
        c10::free_cpu(memory);
      }
    }
  }

  static void free(void* memory);

  InUse in_use_;
  std::array<FreeBlocks, kSizes> blocks_;
  LargeBlocks large_{kLargeRange};
};

// Never destroyed: tensors with static lifetime are freed after everything else.
BlockCache& cache() {
  static auto* const cache = new BlockCache;
  return *cache;
}

void BlockCache::free(void* memory) {
  if (memory == nullptr) {
    return;
  }
  c10::profiledCPUMemoryReporter().Delete(memory);
  // The allocator's size of a block is the requested size or a little more.
  const size_t usable = cache().size_in_use(memory);
  cache().in_use_.remove(usable);
  if (cache().large_.owns(memory)) {
    cache().large_.give_back(memory);
    return;
  }
  const bool is_small = usable >= kLeast && usable < kMost + kLeast;
  if (is_small) {
    const size_t number = size_above(usable + 1) - 1;
    if (cache().blocks_[number].keep(memory, size_of(number))) {
      return;
    }
  }
  c10::free_cpu(memory);
}

}  // namespace

void use_block_cache() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  c10::SetCPUAllocator(&cache());
#endif
}

size_t block_cache_bytes() {
  return cache().kept();
}

TensorMemory cpu_tensor_memory() {
  return cache().in_use();
}

int64_t cpu_block_bytes(int64_t bytes) {
  constexpr size_t kOfMalloc = 8;  // malloc's blocks are this much larger than a multiple of 16
  const auto size = static_cast<size_t>(bytes);
  return static_cast<int64_t>(size > kMost ? LargeBlocks::size_for(size)
                                           : size_of(size_above(size)) + kOfMalloc);
}

}  // namespace tenon
