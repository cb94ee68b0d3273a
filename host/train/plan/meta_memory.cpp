// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/meta_memory.hpp"

#include <algorithm>
#include <atomic>

namespace tenon {
namespace {

// Atomic because autograd also frees tensors on its own threads.
struct Count {
  std::atomic<int64_t> live{0};
  std::atomic<int64_t> peak{0};

  void add(int64_t bytes) {
    const int64_t now = live.fetch_add(bytes) + bytes;
    int64_t most = peak.load();
    while (now > most && !peak.compare_exchange_weak(most, now)) {
    }
  }
};

Count& count() {
  static Count count;
  return count;
}

// Stores the size in place of an address, since there is no memory to point to.
class CountingMeta final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    count().add(static_cast<int64_t>(bytes));
    return {nullptr, reinterpret_cast<void*>(bytes), &CountingMeta::free, c10::DeviceType::Meta};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {}

 private:
  static void free(void* bytes) {
    count().live.fetch_sub(static_cast<int64_t>(reinterpret_cast<size_t>(bytes)));
  }
};

c10::Allocator* counting_allocator() {
  static auto* const allocator = new CountingMeta;  // outlives every tensor
  return allocator;
}

}  // namespace

MetaMemory::MetaMemory() : before_(c10::GetAllocator(c10::DeviceType::Meta)) {
  c10::SetAllocator(c10::DeviceType::Meta, counting_allocator(), /*priority=*/0);
  begin_peak();
}

MetaMemory::~MetaMemory() {
  c10::SetAllocator(c10::DeviceType::Meta, before_, /*priority=*/0);
}

int64_t MetaMemory::live() const {
  return count().live.load();
}

void MetaMemory::begin_peak() {
  count().peak.store(count().live.load());
}

int64_t MetaMemory::peak() const {
  return count().peak.load();
}

}  // namespace tenon
