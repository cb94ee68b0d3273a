// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_platform.hpp"

#include "host/error/error.hpp"

#include <c10/core/DefaultDtype.h>

#include "tests/host/train/run/run_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

Recipe on_cpu() {
  Recipe recipe;
  recipe.device = "cpu";
  recipe.compute_threads = 1;
  recipe.train.precision = "fp32";
  return recipe;
}

}  // namespace

TEST_CASE("a platform on the CPU has one exec for all components", "[train]") {
  const auto process = test_process();
  Recipe recipe = on_cpu();
  recipe.seed = 5;
  const RunPlatform platform(recipe, *process, {}, RunPlatform::Purpose::kTrain);
  CHECK(platform.device_type() == "cpu");
  CHECK(platform.gpu() == nullptr);
  CHECK(platform.is_first());
  CHECK(platform.exec().mesh == &platform.mesh_view());
  CHECK(platform.exec().stream == nullptr);
  CHECK(platform.exec().compute_dtype == at::kFloat);
  CHECK(platform.waits_by_plugin().empty());
  recipe.seed = 6;
  const RunPlatform other(recipe, *process, {}, RunPlatform::Purpose::kTrain);
  CHECK(other.exec().seed != platform.exec().seed);
}

TEST_CASE("the default dtype of the process follows the precision", "[train]") {
  const auto process = test_process();
  Recipe recipe = on_cpu();
  recipe.train.precision = "fp64";
  {
    const RunPlatform platform(recipe, *process, {}, RunPlatform::Purpose::kTrain);
    platform.set_up_process(recipe);
    CHECK(c10::get_default_dtype_as_scalartype() == at::kDouble);
  }
  recipe.train.precision = "bf16";  // parameters start as fp32, rounded
  const RunPlatform platform(recipe, *process, {}, RunPlatform::Purpose::kTrain);
  platform.set_up_process(recipe);
  CHECK(c10::get_default_dtype_as_scalartype() == at::kFloat);
}

TEST_CASE("a check accepts a recipe for several ranks, a run does not start with one", "[train]") {
  const auto process = test_process();
  Recipe recipe = on_cpu();
  recipe.parallel.shard = 2;
  const RunPlatform platform(recipe, *process, {}, RunPlatform::Purpose::kCheck);
  CHECK(platform.role().is_alone());
  try {
    const RunPlatform refused(recipe, *process, {}, RunPlatform::Purpose::kTrain);
    FAIL("one rank cannot shard over two");
  } catch (const Error& error) {
    CHECK(error.id() == "distributed.bad_mesh");
  }
}

}  // namespace tenon
