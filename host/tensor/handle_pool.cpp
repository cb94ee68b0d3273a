// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/handle_pool.hpp"

#include "host/error/assert.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <sys/mman.h>
#include <utility>

namespace tenon {

struct HandlePool::Slot {
  // Where a handle points; constructed while the slot is live.
  alignas(at::Tensor) std::byte tensor[sizeof(at::Tensor)];
  std::atomic<bool> is_live;
  const tenon_host* holder;
  Slot* next_free;

  at::Tensor& get() noexcept { return *std::launder(reinterpret_cast<at::Tensor*>(tensor)); }
};

namespace {

constexpr std::size_t kMostSlots = std::size_t{1} << 26;
constexpr std::size_t kOpened = std::size_t{1} << 15;  // slots that become writable together
// Released slots that a thread keeps, so that most handles need no lock.
constexpr std::size_t kMostKept = 64;
// Released slots that wait for their next use in the checking mode.
constexpr std::size_t kLeastFree = std::size_t{1} << 18;

}  // namespace

// The released slots of one thread, as a list.
struct HandlePool::Cache {
  Slot* free = nullptr;
  std::size_t size = 0;

  static Cache& of_thread() {
    thread_local Cache cache;
    return cache;
  }
  ~Cache() {
    while (free != nullptr) {
      HandlePool::get().take_back(std::exchange(free, free->next_free));
    }
  }
};

HandlePool& HandlePool::get() {
  static auto* const pool = new HandlePool;
  return *pool;
}

HandlePool::HandlePool() : most_kept_(kMostKept) {
  void* const memory = ::mmap(nullptr,
                              kMostSlots * sizeof(Slot),
                              PROT_READ,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                              -1,
                              0);
  if (memory != MAP_FAILED) {
    slots_ = static_cast<Slot*>(memory);
  }
}

HandlePool::Slot* HandlePool::new_slot() {
  const std::lock_guard lock(mutex_);
  if (free_ != nullptr && num_free_ > least_free_) {
    --num_free_;
    return std::exchange(free_, free_->next_free);
  }
  if (slots_ == nullptr || num_slots_ == kMostSlots) {
    throw std::bad_alloc();
  }
  if (num_slots_ == num_writable_) {
    void* const memory = slots_ + num_writable_;
    if (::mprotect(memory, kOpened * sizeof(Slot), PROT_READ | PROT_WRITE) != 0) {
      throw std::bad_alloc();
    }
    num_writable_ += kOpened;
  }
  return &slots_[num_slots_++];
}

void HandlePool::take_back(Slot* slot) noexcept {
  const std::lock_guard lock(mutex_);
  ++num_free_;
  if (least_free_ == 0 || free_ == nullptr) {
    slot->next_free = std::exchange(free_, slot);
    last_free_ = slot->next_free == nullptr ? slot : last_free_;
    return;
  }
  slot->next_free = nullptr;
  last_free_->next_free = slot;
  last_free_ = slot;
}

void HandlePool::keep_released() noexcept {
  const std::lock_guard lock(mutex_);
  least_free_ = kLeastFree;
  most_kept_.store(0, std::memory_order_relaxed);
}

tenon_tensor* HandlePool::add(at::Tensor tensor, const tenon_host* holder) {
  Cache& cache = Cache::of_thread();
  Slot* const slot = cache.free != nullptr ? cache.free : new_slot();
  if (slot == cache.free) {
    cache.free = slot->next_free;
    --cache.size;
  }
  new (slot->tensor) at::Tensor(std::move(tensor));
  slot->holder = holder;
  slot->is_live.store(true, std::memory_order_release);
  return reinterpret_cast<tenon_tensor*>(slot->tensor);
}

at::Tensor HandlePool::remove(tenon_tensor* handle) noexcept {
  TENON_ASSERT(problem(handle) == nullptr, "a handle of the pool");
  auto* const slot = reinterpret_cast<Slot*>(handle);
  at::Tensor tensor = std::move(slot->get());
  slot->get().~Tensor();
  slot->is_live.store(false, std::memory_order_relaxed);
  if (Cache& cache = Cache::of_thread(); cache.size < most_kept_.load(std::memory_order_relaxed)) {
    slot->next_free = std::exchange(cache.free, slot);
    ++cache.size;
  } else {
    take_back(slot);
  }
  return tensor;
}

const char* HandlePool::problem(const tenon_tensor* handle) const noexcept {
  const auto offset = reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(slots_);
  if (offset >= kMostSlots * sizeof(Slot) || offset % sizeof(Slot) != 0) {
    return "is not a handle of this host";
  }
  // A slot that was never used has zeros.
  return slots_[offset / sizeof(Slot)].is_live.load(std::memory_order_relaxed)
             ? nullptr
             : "has already been released";
}

int64_t HandlePool::num_live() const {
  const std::lock_guard lock(mutex_);
  return std::count_if(slots_, slots_ + num_slots_, [](const Slot& slot) {
    return slot.is_live.load(std::memory_order_relaxed);
  });
}

std::map<const tenon_host*, int64_t> HandlePool::num_live_by_holder() const {
  const std::lock_guard lock(mutex_);
  std::map<const tenon_host*, int64_t> counts;
  for (std::size_t i = 0; i < num_slots_; ++i) {
    if (slots_[i].is_live.load(std::memory_order_relaxed) && slots_[i].holder != nullptr) {
      ++counts[slots_[i].holder];
    }
  }
  return counts;
}

}  // namespace tenon
