// SPDX-License-Identifier: Apache-2.0
#include "host/device/precision.hpp"

#include "host/device/autocast_guard.hpp"
#include "host/error/error.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a precision says what is stored, what blocks see, and what sums keep", "[device]") {
  const auto check = [](const char* name, at::ScalarType stored, at::ScalarType compute) {
    const PrecisionPolicy policy = precision_policy(name, ComputesOn::kCpu);
    INFO(name);
    CHECK(policy.stored == stored);
    CHECK(policy.compute == compute);
    CHECK(policy.exact() == (stored == at::kDouble ? at::kDouble : at::kFloat));
    return policy.autocast;
  };
  CHECK_FALSE(check("fp32", at::kFloat, at::kFloat));
  CHECK_FALSE(check("fp64", at::kDouble, at::kDouble));
  CHECK(check("bf16_autocast", at::kFloat, at::kFloat) == at::kBFloat16);
  CHECK_FALSE(check("bf16_params", at::kFloat, at::kBFloat16));
  CHECK_FALSE(check("bf16", at::kBFloat16, at::kBFloat16));
}

TEST_CASE("fp16 is refused on a CPU, with what to use instead", "[device]") {
  try {
    precision_policy("fp16_autocast", ComputesOn::kCpu);
    FAIL("fp16_autocast was accepted");
  } catch (const Error& error) {
    CHECK(error.id() == "precision.needs_gpu");
    CHECK_THAT(error.what(), contains_text("bf16_autocast"));
  }
}

TEST_CASE("autocast holds as long as its guard, and leaves no copies of weights", "[device]") {
  const at::Tensor a = at::ones({2, 2});
  {
    const AutocastGuard guard(at::kCPU, at::kBFloat16);
    CHECK(at::matmul(a, a).scalar_type() == at::kBFloat16);
    CHECK_FALSE(at::autocast::is_autocast_cache_enabled());
    {
      const AutocastGuard off(at::kCPU, std::nullopt);
      CHECK(at::matmul(a, a).scalar_type() == at::kFloat);
    }
    CHECK(at::matmul(a, a).scalar_type() == at::kBFloat16);
  }
  CHECK(at::matmul(a, a).scalar_type() == at::kFloat);
  CHECK(at::autocast::is_autocast_cache_enabled());
}

}  // namespace tenon
