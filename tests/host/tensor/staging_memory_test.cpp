// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/staging_memory.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstdint>
#include <sys/mman.h>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Of 1 MiB, from `first` on.
at::Tensor numbers(double first) {
  return (at::arange(512 * 512, at::kDouble) + first).to(at::kFloat).view({512, 512});
}

TEST_CASE("a staged copy has the values and goes its own way", "[tensor][staging]") {
  at::Tensor values = numbers(1);
  const at::Tensor turned = values.t();
  const at::Tensor copy = staged_copy(values);
  const at::Tensor copy_of_turned = staged_copy(turned);
  const at::Tensor small = staged_copy(values.narrow(1, 3, 2));
  const at::Tensor narrow = staged_copy(values.to(at::kBFloat16));
  const at::Tensor none = staged_copy(at::empty({0, 3}));
  CHECK(copy.is_contiguous());
  CHECK(copy_of_turned.is_contiguous());
  CHECK(small.is_contiguous());
  CHECK(at::equal(copy, values));
  CHECK(at::equal(copy_of_turned, turned));
  CHECK(at::equal(small, values.narrow(1, 3, 2)));
  CHECK(narrow.scalar_type() == at::kBFloat16);
  CHECK(at::equal(narrow, values.to(at::kBFloat16)));
  CHECK(none.sizes().vec() == std::vector<int64_t>{0, 3});
  values.zero_();
  CHECK(at::equal(copy, numbers(1)));
}

TEST_CASE("a staged copy lies where one of its size has lain that is gone", "[tensor][staging]") {
  const at::Tensor first = numbers(0);
  const at::Tensor second = numbers(7);
  const void* where = nullptr;
  {
    const at::Tensor copy = staged_copy(first);
    const at::Tensor view = copy.narrow(0, 1, 2);
    where = copy.const_data_ptr();
    CHECK(staged_copy(second).const_data_ptr() != where);
  }
  const at::Tensor a = staged_copy(first);
  const at::Tensor b = staged_copy(second);
  CHECK((a.const_data_ptr() == where || b.const_data_ptr() == where));
  CHECK(a.const_data_ptr() != b.const_data_ptr());
  CHECK(at::equal(a, first));
  CHECK(at::equal(b, second));
}

TEST_CASE("a view keeps the memory of a staged copy in use", "[tensor][staging]") {
  const at::Tensor values = numbers(3);
  at::Tensor copy = staged_copy(values);
  const void* const where = copy.const_data_ptr();
  const at::Tensor view = copy.narrow(0, 0, 1);
  copy = at::Tensor();
  std::vector<at::Tensor> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(staged_copy(values));
    CHECK(others.back().const_data_ptr() != where);
  }
  CHECK(at::equal(view, values.narrow(0, 0, 1)));
}

TEST_CASE("a large staged copy begins where a huge page does", "[tensor][staging]") {
  const at::Tensor values = at::arange(int64_t{3} << 20, at::kInt);
  const at::Tensor copy = staged_copy(values);
  CHECK(reinterpret_cast<uintptr_t>(copy.const_data_ptr()) % (uintptr_t{2} << 20) == 0);
  CHECK(at::equal(copy, values));
}

// How many pages of a tensor that begins with one are in memory.
size_t pages_there(const at::Tensor& tensor) {
  std::vector<unsigned char> there((tensor.nbytes() + 4095) / 4096);
  REQUIRE(::mincore(const_cast<void*>(tensor.const_data_ptr()), tensor.nbytes(), there.data()) ==
          0);
  return static_cast<size_t>(
      std::ranges::count_if(there, [](unsigned char page) { return (page & 1) != 0; }));
}

TEST_CASE("memory that was prepared for a copy is there before it", "[tensor][staging]") {
  constexpr int64_t kBytes = int64_t{5} << 20;  // sizes that no other test has
  prepare_staging(kBytes, /*is_of_gpu=*/false);
  prepare_staging(100, /*is_of_gpu=*/false);
  CHECK(pages_there(staged_empty({kBytes}, at::kByte)) == kBytes / 4096);
  CHECK(pages_there(staged_empty({kBytes + 4096}, at::kByte)) == 0);
}

}  // namespace
}  // namespace tenon
