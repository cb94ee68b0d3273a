// SPDX-License-Identifier: Apache-2.0

#include "host/device/random_state.hpp"

#include <ATen/ATen.h>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

TEST_CASE("one seed gives one sequence", "[device]") {
  seed_default_generator(7);
  const at::Tensor first = at::randn({10});
  const at::Tensor second = at::randn({10});
  seed_default_generator(7);
  CHECK(at::equal(at::randn({10}), first));
  CHECK(at::equal(at::randn({10}), second));
  CHECK_FALSE(at::equal(first, second));
}

TEST_CASE("all 64 bits of a seed count", "[device]") {
  seed_default_generator(7);
  const at::Tensor low = at::rand({10});
  seed_default_generator(7 + (uint64_t{1} << 32));
  CHECK_FALSE(at::equal(at::rand({10}), low));
  seed_default_generator(7 + (uint64_t{1} << 63));
  CHECK_FALSE(at::equal(at::rand({10}), low));
}

TEST_CASE("a guard puts the generator back, half-used pairs of normals included", "[device]") {
  seed_default_generator(3);
  static_cast<void>(at::empty({1}).normal_());  // leaves the second of its pair in the generator
  at::Tensor inside;
  {
    const RandomStateGuard guard;
    inside = at::cat({at::empty({1}).normal_(), at::rand({5})});
    seed_default_generator(99);
  }
  CHECK(at::equal(at::cat({at::empty({1}).normal_(), at::rand({5})}), inside));
}

}  // namespace
}  // namespace tenon
