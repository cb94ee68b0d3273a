// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/torch_guard.hpp"

#include <ATen/ATen.h>

#include <new>
#include <stdexcept>

#include "tests/support/catch.hpp"

// Tests of this program ask for more memory than there is; a sanitizer would end the process
// instead of letting the allocation fail.
#ifdef __SANITIZE_ADDRESS__
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
#endif
#ifdef __SANITIZE_THREAD__
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}
#endif

namespace tenon {
namespace {

TEST_CASE("what libtorch throws is the caller's fault, and has no backtrace", "[tensor]") {
  const StatusText text = take(torch_guard(nullptr, "toy: ", [] {
    static_cast<void>(at::ones({2, 3}).matmul(at::ones({2, 3})));
  }));
  CHECK(text.code == TENON_INVALID);
  CHECK(text.id == "tensor.op_failed");
  CHECK_THAT(text.message, contains_text("toy: mat1 and mat2 shapes cannot be multiplied"));
  CHECK(text.message.find("Exception raised from") == std::string::npos);
}

TEST_CASE("running out of memory in libtorch has its own code", "[tensor]") {
  const StatusText text = take(torch_guard(
      nullptr, "", [] { static_cast<void>(at::empty({int64_t{1} << 58}, at::kByte)); }));
  CHECK(text.code == TENON_OUT_OF_MEMORY);
  CHECK(text.id == "tensor.out_of_memory");
}

TEST_CASE("an operator without an implementation is unsupported", "[tensor]") {
  const StatusText text = take(
      torch_guard(nullptr, "", [] { TORCH_CHECK_NOT_IMPLEMENTED(false, "not for this device"); }));
  CHECK(text.code == TENON_UNSUPPORTED);
}

TEST_CASE("a standard exception out of libtorch is a complaint too", "[tensor]") {
  const StatusText text =
      take(torch_guard(nullptr, "x: ", [] { throw std::runtime_error("without overflow"); }));
  CHECK(text.code == TENON_INVALID);
  CHECK(text.message == "x: without overflow");
}

TEST_CASE("other exceptions pass a torch guard as they pass a guard", "[tensor]") {
  CHECK(torch_guard(nullptr, "", [] {}) == nullptr);
  CHECK(take(torch_guard(nullptr, "", [] { throw Error("a.b", "c"); })).id == "a.b");
  CHECK(take(torch_guard(nullptr, "", [] { throw std::bad_alloc(); })).id == "host.out_of_memory");
  CHECK(take(torch_guard(nullptr, "", [] { throw 42; })).code == TENON_INTERNAL);
}

}  // namespace
}  // namespace tenon
