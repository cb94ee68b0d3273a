// SPDX-License-Identifier: Apache-2.0
#include "host/optim/loss_scale.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

#include <fstream>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

at::Tensor overflow(bool is_there) {
  return at::scalar_tensor(is_there ? 1.0 : 0.0, at::kFloat);
}

}  // namespace

TEST_CASE("a loss scale begins, grows and backs off as torch.amp.GradScaler does", "[optim]") {
  std::ifstream file(source_dir() / "tests/parity/loss_scale_golden.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const nlohmann::json& options = golden["options"];
  LossScale scale(at::kCPU,
                  {.first = options["init_scale"],
                   .growth = options["growth_factor"],
                   .backoff = options["backoff_factor"],
                   .growth_interval = options["growth_interval"]});
  REQUIRE(golden["overflows"].size() == 100);
  for (size_t i = 0; i < golden["overflows"].size(); ++i) {
    scale.update(overflow(golden["overflows"][i] == 1));
    INFO("after update " << i);
    CHECK(scale.scale().item<double>() == golden["scales"][i].get<double>());
  }
}

TEST_CASE("the default scale is 65536, and doubles after 2000 updates", "[optim]") {
  LossScale scale(at::kCPU);
  for (int i = 0; i < 1999; ++i) {
    scale.update(overflow(false));
  }
  CHECK(scale.scale().item<float>() == 65536.0F);
  CHECK(scale.inverse().item<double>() == 1.0 / 65536);
  scale.update(overflow(false));
  CHECK(scale.scale().item<float>() == 131072.0F);
  scale.update(overflow(true));
  CHECK(scale.scale().item<float>() == 65536.0F);
}

TEST_CASE("a loss scale goes on from its snapshot", "[optim]") {
  LossScale scale(at::kCPU, {.growth_interval = 3});
  scale.update(overflow(true));
  scale.update(overflow(false));
  scale.update(overflow(false));
  StateTree tree;
  scale.snapshot(tree, "loss_scale");
  scale.update(overflow(false));  // a snapshot is a copy
  LossScale other(at::kCPU, {.growth_interval = 3});
  other.load(tree, "loss_scale");
  CHECK(other.scale().item<float>() == 32768.0F);
  other.update(overflow(false));
  CHECK(other.scale().item<float>() == 65536.0F);
  CHECK(at::equal(other.scale(), scale.scale()));
  CHECK_THROWS_AS(other.load(StateTree(), "loss_scale"), Error);
}

}  // namespace tenon
