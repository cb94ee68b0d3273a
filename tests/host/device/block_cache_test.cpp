// SPDX-License-Identifier: Apache-2.0

#include "host/device/block_cache.hpp"

#include <ATen/Functions.h>

#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

at::Tensor bytes(int64_t n) {
  return at::empty({n}, at::kByte);
}

// A freed block is one that somebody else may be given: what a sanitizer looks for.
bool has_cache() {
  use_block_cache();
  const size_t before = block_cache_bytes();
  bytes(100'000).reset();
  return block_cache_bytes() > before;
}

TEST_CASE("a freed block is the next one of its size", "[device]") {
  if (!has_cache()) {
    TENON_SKIP("built with a sanitizer, under which nothing is kept");
  }
  for (const int64_t n : {1, 64, 65, 300, 4096, 70'000, 262'144}) {
    CAPTURE(n);
    at::Tensor tensor = bytes(n);
    const void* const block = tensor.const_data_ptr();
    tensor.reset();
    tensor = bytes(n);
    CHECK(tensor.const_data_ptr() == block);
    const at::Tensor other = bytes(n);
    CHECK(other.const_data_ptr() != block);
  }
}

TEST_CASE("tensors of all sizes have their bytes on a boundary, and share none", "[device]") {
  use_block_cache();
  std::vector<at::Tensor> held;
  for (int round = 0; round < 3; ++round) {
    for (int64_t n = 1; n < 600'000; n += 1 + n / 7) {
      at::Tensor tensor = bytes(n);
      CHECK(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 64 == 0);
      tensor.fill_(static_cast<int>(n % 251));
      held.push_back(std::move(tensor));
    }
    bool is_whole = true;
    for (const at::Tensor& tensor : held) {
      is_whole = is_whole && tensor.eq(static_cast<int>(tensor.numel() % 251)).all().item<bool>();
    }
    CHECK(is_whole);
    held.resize(held.size() / 2);
  }
}

TEST_CASE("blocks freed on another thread are kept, and not without end", "[device]") {
  if (!has_cache()) {
    TENON_SKIP("built with a sanitizer, under which nothing is kept");
  }
  constexpr int64_t kSize = 50'000;
  std::vector<at::Tensor> held;
  for (int i = 0; i < 200; ++i) {  // 10 MB of one size
    held.push_back(bytes(kSize));
  }
  const size_t before = block_cache_bytes();
  std::thread([&] { held.clear(); }).join();
  const size_t kept = block_cache_bytes() - before;
  CHECK(kept > 20 * kSize);
  CHECK(kept <= 2 << 20);
}

TEST_CASE("the memory of tensors is counted while they live, and its peak for good", "[device]") {
  if (!has_cache()) {
    TENON_SKIP("built with a sanitizer, which has its own allocator");
  }
  const int64_t before = cpu_tensor_memory().bytes;
  for (const int64_t n : {1000, 10'000'000}) {
    CAPTURE(n);
    at::Tensor tensor = bytes(n);
    const int64_t held = cpu_tensor_memory().bytes - before;
    CHECK(held >= n);
    CHECK(held <= n + n / 4 + 4096);  // a size of the cache, or pages
    std::thread([&] { tensor.reset(); }).join();
    CHECK(cpu_tensor_memory().bytes == before);
  }
  CHECK(cpu_tensor_memory().peak_bytes >= before + 10'000'000);
}

TEST_CASE("the memory of a tensor is known from its size", "[device]") {
  use_block_cache();
  const at::Tensor counted = bytes(1);
  if (cpu_tensor_memory().bytes == 0) {
    TENON_SKIP("built with a sanitizer, which has its own allocator");
  }
  const int64_t before = cpu_tensor_memory().bytes;
  for (const int64_t n : {1, 64, 65, 300, 1000, 5000, 184'832, 262'144, 262'145, 10'000'000}) {
    CAPTURE(n);
    const at::Tensor tensor = bytes(n);
    const int64_t held = cpu_tensor_memory().bytes - before;
    CHECK(std::abs(held - cpu_block_bytes(n)) <= 64);  // malloc may use the rest of a block
  }
}

TEST_CASE("an empty tensor, and one that grows, work as ever", "[device]") {
  use_block_cache();
  at::Tensor tensor = bytes(0);
  CHECK(tensor.numel() == 0);
  tensor.resize_({10}).fill_(7);
  tensor.resize_({100'000});
  CHECK(tensor.narrow(0, 0, 10).eq(7).all().item<bool>());
}

}  // namespace
}  // namespace tenon
