// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/staging_memory.hpp"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/accumulate.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <utility>

namespace tenon {
namespace {

// malloc itself keeps smaller blocks for reuse.
constexpr size_t kLeast = size_t{256} << 10;
// Blocks of at least this size start at a huge page.
constexpr size_t kHugePage = size_t{2} << 20;

StagingPins& pins() {
  static StagingPins pins;
  return pins;
}

// Memory mapped from the kernel.
class Block {
 public:
  Block(size_t bytes, bool is_pinned) : bytes_(bytes) {
    // Room to start at a huge page: the kernel fills it at once, but small pages one by one.
    mapped_bytes_ = bytes + (bytes >= kHugePage ? kHugePage : 0);
    void* const mapped =
        ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      throw std::bad_alloc();
    }
    mapped_ = mapped;
    data_ = mapped;
    if (bytes >= kHugePage) {
      size_t room = mapped_bytes_;
      std::align(kHugePage, bytes, data_, room);
      // Without huge pages, small pages are used.
      static_cast<void>(::madvise(data_, bytes, MADV_HUGEPAGE));
    }
    is_pinned_ = is_pinned && pins().pin != nullptr && pins().pin(data_, bytes);
  }
  ~Block() {
    if (is_pinned_) {
      pins().unpin(data_);
    }
    ::munmap(mapped_, mapped_bytes_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Touches each page.
  void fill() {
    constexpr size_t kPage = 4096;
    for (size_t at = 0; at < bytes_; at += kPage) {
      static_cast<volatile char*>(data_)[at] = 0;
    }
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  size_t mapped_bytes_ = 0;
  void* mapped_ = nullptr;
  void* data_ = nullptr;
  bool is_pinned_ = false;
};

class Pool {
 public:
  // Never destroyed: tensors may outlive static objects.
  static Pool& instance() {
    static Pool& pool = *new Pool;
    return pool;
  }

  std::unique_ptr<Block> take(size_t bytes, bool is_pinned) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = free_.find(bytes); found != free_.end()) {
        std::unique_ptr<Block> block = std::move(found->second);
        free_.erase(found);
        return block;
      }
      // This set of copies differs from the last one: free blocks of the last set to make room.
      for (size_t freed = 0; freed < bytes && !free_.empty();) {
        const auto largest = std::prev(free_.end());
        freed += largest->first;
        free_.erase(largest);
      }
    }
    return std::make_unique<Block>(bytes, is_pinned);
  }

  void give_back(std::unique_ptr<Block> block) {
    const size_t bytes = block->bytes();
    const std::lock_guard lock(mutex_);
    free_.emplace(bytes, std::move(block));
  }

 private:
  std::mutex mutex_;
  std::multimap<size_t, std::unique_ptr<Block>> free_;  // by bytes
};

at::Tensor staged(at::IntArrayRef sizes, at::ScalarType dtype, bool is_pinned) {
  const size_t bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * c10::elementSize(dtype);
  if (bytes < kLeast) {
    return at::empty(sizes, dtype);
  }
  std::unique_ptr<Block> block = Pool::instance().take(bytes, is_pinned);
  void* const data = block->data();
  return at::from_blob(
      data,
      sizes,
      // Raw pointer: a std::function must be copyable. It is called exactly once.
      [kept = block.release()](void*) { Pool::instance().give_back(std::unique_ptr<Block>(kept)); },
      at::TensorOptions(dtype));
}

}  // namespace

void use_staging_pins(const StagingPins& wanted) {
  pins() = wanted;
}

void prepare_staging(size_t bytes, bool is_of_gpu) {
  if (bytes >= kLeast) {
    auto block = std::make_unique<Block>(bytes, is_of_gpu);
    block->fill();
    Pool::instance().give_back(std::move(block));
  }
}

at::Tensor staged_copy(const at::Tensor& values) {
  at::Tensor copy = staged(values.sizes(), values.scalar_type(), !values.is_cpu());
  copy.copy_(values);
  return copy;
}

at::Tensor staged_empty(at::IntArrayRef sizes, at::ScalarType dtype) {
  return staged(sizes, dtype, /*is_pinned=*/false);
}

}  // namespace tenon
