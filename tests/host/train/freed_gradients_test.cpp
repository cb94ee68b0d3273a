// SPDX-License-Identifier: Apache-2.0
#include "host/train/freed_gradients.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <limits>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// One group for each dtype, with 2,500 gradients each.
std::vector<FlatGroup> groups_of(const std::vector<at::ScalarType>& dtypes, double largest) {
  std::vector<FlatGroup> groups;
  for (size_t g = 0; g < dtypes.size(); ++g) {
    const std::string name = "p" + std::to_string(g);
    groups.emplace_back(
        name, dtypes[g], at::kCPU, std::vector<FlatParameter>{{.shape = {2500}, .name = name}});
    groups.back().add_grad(0, at::sin(at::arange(2500, at::kDouble)) * (g == 0 ? largest : 1));
  }
  return groups;
}

}  // namespace

TEST_CASE("gradients that were freed have the norm, bit for bit, of those that stay", "[train]") {
  for (const std::vector<at::ScalarType>& dtypes :
       {std::vector{at::kFloat, at::kBFloat16},
        std::vector{at::kDouble, at::kFloat, at::kDouble}}) {
    for (const double largest : {0.3, dtypes[0] == at::kDouble ? 1e300 : 1e30}) {
      const auto groups = groups_of(dtypes, largest);
      FreedGradients freed(groups);
      for (int step = 0; step < 2; ++step) {
        freed.begin_step();
        CHECK(freed.norm() == 0);
        for (size_t g = groups.size(); g-- > 0;) {  // in the order of the backward
          CHECK(freed.add(g));
        }
        CHECK(std::isfinite(freed.norm()));
        CHECK(freed.norm() == grad_norm(groups));
      }
    }
  }
}

TEST_CASE("the first freed gradient that is non-finite is named", "[train]") {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    auto groups = groups_of({dtype, dtype, dtype}, 1);
    groups[0].grad_view(0)[7] = std::numeric_limits<double>::quiet_NaN();
    groups[1].grad_view(0)[7] = std::numeric_limits<double>::infinity();
    FreedGradients freed(groups);
    freed.begin_step();
    CHECK(freed.add(2));
    CHECK_FALSE(freed.add(1));
    CHECK_FALSE(std::isfinite(freed.norm()));
    CHECK_FALSE(freed.add(0));
    CHECK_THAT(freed.origin().text, contains_text("'p1'"));
  }
}

}  // namespace tenon
