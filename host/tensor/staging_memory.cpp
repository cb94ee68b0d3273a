// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/staging_memory.hpp"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/accumulate.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

namespace tenon {
namespace {

// Smaller ones malloc keeps by itself.
constexpr size_t kLeast = size_t{256} << 10;

class Pool {
 public:
  // Never destroyed: a tensor may be gone later than what is static.
  static Pool& instance() {
    static Pool& pool = *new Pool;
    return pool;
  }

  at::Tensor take(size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = free_.find(bytes); found != free_.end()) {
        at::Tensor block = std::move(found->second);
        free_.erase(found);
        return block;
      }
      // Another set of copies than the last one: what that one leaves over makes room for it.
      for (size_t freed = 0; freed < bytes && !free_.empty();) {
        const auto largest = std::prev(free_.end());
        freed += largest->first;
        free_.erase(largest);
      }
    }
    return at::empty({static_cast<int64_t>(bytes)}, at::kByte);
  }

  void give_back(at::Tensor block) {
    const size_t bytes = block.nbytes();
    const std::lock_guard lock(mutex_);
    free_.emplace(bytes, std::move(block));
  }

 private:
  std::mutex mutex_;
  std::multimap<size_t, at::Tensor> free_;  // by bytes
};

}  // namespace

at::Tensor staged_copy(const at::Tensor& values) {
  at::Tensor copy = staged_empty(values.sizes(), values.scalar_type());
  copy.copy_(values);
  return copy;
}

at::Tensor staged_empty(at::IntArrayRef sizes, at::ScalarType dtype) {
  const size_t bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * c10::elementSize(dtype);
  if (bytes < kLeast) {
    return at::empty(sizes, dtype);
  }
  at::Tensor block = Pool::instance().take(bytes);
  void* const data = block.mutable_data_ptr();
  return at::from_blob(
      data,
      sizes,
      [block = std::move(block)](void*) mutable { Pool::instance().give_back(std::move(block)); },
      at::TensorOptions(dtype));
}

}  // namespace tenon
