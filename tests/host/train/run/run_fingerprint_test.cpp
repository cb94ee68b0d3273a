// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_fingerprint.hpp"

#include <algorithm>
#include <string>

#include "tests/host/train/run/run_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string value_of(const std::vector<Fact>& metadata, const std::string& name) {
  const auto found =
      std::ranges::find_if(metadata, [&](const Fact& fact) { return fact.name == name; });
  return found != metadata.end() ? found->value : "missing";
}

}  // namespace

TEST_CASE("ranks compare recipe, program, libtorch, device and plugins, not threads", "[train]") {
  const RunRig one;
  const RunRig other(R"({"threads": {"compute": 2}})");
  const RunRig changed(R"({"seed": 9})");
  const auto metadata = [](const RunRig& rig) { return run_fingerprint(rig.recipe(), at::kCPU); };
  CHECK(value_of(metadata(one), "recipe") == value_of(metadata(other), "recipe"));
  CHECK(value_of(metadata(one), "recipe") != value_of(metadata(changed), "recipe"));
  CHECK(value_of(metadata(one), "device") == "cpu");
  CHECK(value_of(metadata(one), "host") != "missing");
  CHECK(value_of(metadata(one), "libtorch") != "missing");
  CHECK_THAT(value_of(metadata(one), "plugin org.tenon.mlp"), contains_text(" ("));
}

}  // namespace tenon
