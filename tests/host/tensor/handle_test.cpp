// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/handle.hpp"

#include "host/error/error.hpp"
#include "host/tensor/handle_pool.hpp"

#include <ATen/ATen.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

TEST_CASE("a handle keeps its tensor alive and gives it back", "[tensor]") {
  const at::Tensor tensor = at::ones({2, 3});
  tenon_tensor* const handle = new_handle(tensor);
  CHECK(tensor.use_count() == 2);
  CHECK(tensor_of(handle).is_same(tensor));
  const at::Tensor back = take_handle(handle);
  CHECK(back.is_same(tensor));
  CHECK(tensor.use_count() == 2);
}

// RLIMIT_DATA limits this value. Sanitizers map more.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("the addresses of handles are no data of the process until they are used", "[tensor]") {
  release_handle(new_handle(at::ones({2})));
  const std::string status = file_text("/proc/self/status");
  const std::string key = "VmData:";
  const size_t at = status.find(key);
  REQUIRE(at != std::string::npos);
  CHECK(std::stol(status.substr(at + key.size())) < (1 << 20));  // KiB
}
#endif

TEST_CASE("a borrowed handle takes no reference", "[tensor]") {
  at::Tensor tensor = at::ones({2});
  CHECK(&tensor_of(borrow(tensor)) == &tensor);
  CHECK(&tensor_of(borrow_mutable(tensor)) == &tensor);
  CHECK(tensor.use_count() == 1);
}

TEST_CASE("a handle guard releases what a call put into it", "[tensor]") {
  const at::Tensor tensor = at::ones({2});
  {
    HandleGuard guard;
    CHECK_FALSE(guard);
    CHECK_FALSE(guard.take().defined());
    *guard.out() = new_handle(tensor);
    CHECK(guard);
    CHECK(guard.tensor().is_same(tensor));
    *guard.out() = new_handle(tensor);  // the first one is released
    CHECK(tensor.use_count() == 2);
  }
  CHECK(tensor.use_count() == 1);

  HandleGuard guard(new_handle(tensor));
  HandleGuard other = std::move(guard);
  CHECK(other.take().is_same(tensor));
  CHECK(tensor.use_count() == 1);
  *other.out() = new_handle(tensor);
  release_handle(other.release());
  CHECK(tensor.use_count() == 1);
  release_handle(nullptr);
}

TEST_CASE("a handle is distinguished from any other pointer, and from a released one", "[tensor]") {
  const at::Tensor tensor = at::ones({2});
  tenon_tensor* const handle = new_handle(tensor);
  CHECK(handle_problem(handle) == nullptr);
  auto* const inside = reinterpret_cast<tenon_tensor*>(reinterpret_cast<char*>(handle) + 1);
  CHECK(std::string(handle_problem(inside)) == "is not a handle of this host");
  CHECK(std::string(handle_problem(borrow(tensor))) == "is not a handle of this host");
  CHECK(std::string(handle_problem(reinterpret_cast<tenon_tensor*>(1))) ==
        "is not a handle of this host");
  release_handle(handle);
  CHECK(std::string(handle_problem(handle)) == "has already been released");
  tenon_tensor* const next = new_handle(tensor);  // the memory is used again
  CHECK(next == handle);
  CHECK(handle_problem(next) == nullptr);
  release_handle(next);
}

TEST_CASE("handles are counted by the plugin that got them", "[tensor]") {
  const tenon_host one{};
  const tenon_host two{};
  const at::Tensor tensor = at::zeros({1});
  const auto count = [](const tenon_host& host) {
    const auto counts = HandlePool::get().num_live_by_holder();
    const auto found = counts.find(&host);
    return found != counts.end() ? found->second : 0;
  };
  tenon_tensor* const a = new_handle(tensor, &one);
  tenon_tensor* const b = new_handle(tensor, &one);
  tenon_tensor* const c = new_handle(tensor, &two);
  tenon_tensor* const d = new_handle(tensor);
  CHECK(count(one) == 2);
  CHECK(count(two) == 1);
  for (tenon_tensor* const handle : {a, b, c, d}) {
    release_handle(handle);
  }
  CHECK(count(one) == 0);
  CHECK(count(two) == 0);
}

TEST_CASE("handles of several threads stay apart", "[tensor]") {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  const int64_t before = HandlePool::get().num_live();
  std::vector<std::thread> threads;
  std::atomic<int> num_wrong = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&num_wrong, t] {
      const at::Tensor tensor = at::full({1}, t);
      for (int i = 0; i < kRounds; ++i) {
        tenon_tensor* const a = new_handle(tensor);
        tenon_tensor* const b = new_handle(tensor);
        num_wrong += a == b || !take_handle(b).is_same(tensor) || !take_handle(a).is_same(tensor);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(num_wrong == 0);
  CHECK(HandlePool::get().num_live() == before);
}

TEST_CASE("each dtype of the ABI is one of libtorch's and back", "[tensor]") {
  for (const uint32_t dtype : {TENON_U8,
                               TENON_I8,
                               TENON_I16,
                               TENON_I32,
                               TENON_I64,
                               TENON_F16,
                               TENON_F32,
                               TENON_F64,
                               TENON_BOOL,
                               TENON_BF16,
                               TENON_F8_E5M2,
                               TENON_F8_E4M3}) {
    const std::optional<at::ScalarType> type = scalar_type_of(dtype);
    REQUIRE(type);
    CHECK(dtype_of(*type) == dtype);
  }
  CHECK_FALSE(scalar_type_of(100));
  CHECK_FALSE(dtype_of(at::kComplexFloat));
  CHECK(dtype_of(at::ones({1})) == TENON_F32);
  CHECK_THROWS_AS(dtype_of(at::ones({1}, at::kComplexFloat)), Error);
}

TEST_CASE("devices are mapped both ways, and odd ones are refused", "[tensor]") {
  CHECK(to_torch({TENON_CPU, -1}) == at::Device(at::kCPU));
  CHECK(to_torch({TENON_CUDA, 3}) == at::Device(at::kCUDA, 3));
  CHECK(to_abi(at::Device(at::kMeta)).type == TENON_META);
  CHECK(to_abi(at::Device(at::kCUDA, 2)).index == 2);
  CHECK_THROWS_AS(to_torch({77, 0}), Error);
  CHECK_THROWS_AS(to_torch({TENON_CPU, 1}), Error);
  CHECK_THROWS_AS(to_torch({TENON_CUDA, 4000}), Error);
  CHECK_THROWS_AS(to_torch({TENON_CUDA, -2}), Error);
  CHECK_THROWS_AS(to_abi(at::Device(at::kXLA)), Error);
}

}  // namespace
}  // namespace tenon
