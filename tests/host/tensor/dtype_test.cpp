// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/dtype.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

TEST_CASE("dtypes are told from classes and from numbers that mean nothing", "[tensor]") {
  CHECK(is_dtype(TENON_F32));
  CHECK(is_dtype(TENON_BOOL));
  CHECK_FALSE(is_dtype(TENON_CLASS_COMPUTE));
  CHECK_FALSE(is_dtype(8));  // libtorch's complex half, which the ABI lacks
  CHECK(is_floating_dtype(TENON_BF16));
  CHECK_FALSE(is_floating_dtype(TENON_I64));
  CHECK(is_integer_dtype(TENON_U8));
  CHECK_FALSE(is_integer_dtype(TENON_BOOL));
}

TEST_CASE("dtypes have sizes and names", "[tensor]") {
  CHECK(dtype_size(TENON_F64) == 8);
  CHECK(dtype_size(TENON_BF16) == 2);
  CHECK(dtype_size(TENON_F8_E4M3) == 1);
  CHECK(dtype_name(TENON_BF16) == "bf16");
  CHECK(dtype_name(TENON_CLASS_PARAM) == "parameter dtype");
  CHECK(dtype_name(77) == "dtype 77");
}

TEST_CASE("a class is satisfied by the dtypes it stands for", "[tensor]") {
  const RunDtypes run{.compute = TENON_BF16, .param = TENON_F32};
  CHECK(satisfies_dtype(TENON_BF16, TENON_CLASS_COMPUTE, run));
  CHECK_FALSE(satisfies_dtype(TENON_F32, TENON_CLASS_COMPUTE, run));
  CHECK(satisfies_dtype(TENON_F32, TENON_CLASS_PARAM, run));
  CHECK(satisfies_dtype(TENON_F16, TENON_CLASS_FLOAT, run));
  CHECK_FALSE(satisfies_dtype(TENON_I32, TENON_CLASS_FLOAT, run));
  CHECK(satisfies_dtype(TENON_I32, TENON_CLASS_INTEGER, run));
  CHECK_FALSE(satisfies_dtype(TENON_BOOL, TENON_CLASS_INTEGER, run));
  CHECK(satisfies_dtype(TENON_BOOL, TENON_CLASS_ANY, run));
  CHECK(satisfies_dtype(TENON_I64, TENON_I64, run));
  CHECK_FALSE(satisfies_dtype(TENON_I64, TENON_I32, run));
  CHECK_FALSE(satisfies_dtype(77, 77, run));
}

}  // namespace
}  // namespace tenon
