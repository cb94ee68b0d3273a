// SPDX-License-Identifier: Apache-2.0
#include "host/process/compute_settings.hpp"

#include "host/device/device.hpp"
#include "host/error/error.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <string>
#include <utility>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr auto kPlain = KernelPolicy::Mode::kPlain;
constexpr auto kAuto = KernelPolicy::Mode::kAuto;

bool is_deterministic() {
  return at::globalContext().deterministicAlgorithms();
}

std::string keep(const std::string& by, const KeepKernelAnswer& keeper) {
  return keeper ? keeper("a question", [&by] { return by; }) : "no keeper";
}

// The keeper in use, which can only be asked for by replacing it.
std::string answer_kept() {
  KeepKernelAnswer keeper = set_kernel_answer_keeper(nullptr);
  const std::string answer = keep("measured", keeper);
  set_kernel_answer_keeper(std::move(keeper));
  return answer;
}

}  // namespace

TEST_CASE("settings of computation hold while their object exists", "[process]") {
  at::set_num_threads(1);
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kFloat));
  at::globalContext().setDeterministicFillUninitializedMemory(true);
  set_kernel_policy({});
  {
    ComputeSettings settings;
    settings.make_reproducible();
    settings.use_threads(2);
    settings.use_kernels({.mode = kPlain, .forced = {{"linear", "onednn"}}});
    settings.keep_kernel_answers([](const auto&, const auto&) { return "kept by the run"; });
    settings.use_default_dtype(at::kDouble);
    CHECK(is_deterministic());
    CHECK_FALSE(at::globalContext().deterministicFillUninitializedMemory());
    CHECK(at::get_num_threads() == 2);
    CHECK(kernel_policy().mode == kPlain);
    CHECK(answer_kept() == "kept by the run");
    CHECK(c10::get_default_dtype_as_scalartype() == at::kDouble);
    // A second value replaces the first one, and not the one from before.
    settings.use_threads(3);
    settings.use_default_dtype(at::kHalf);
  }
  CHECK_FALSE(is_deterministic());
  CHECK(at::globalContext().deterministicFillUninitializedMemory());
  CHECK(at::get_num_threads() == 1);
  CHECK(kernel_policy().mode == kAuto);
  CHECK(kernel_policy().forced.empty());
  CHECK(answer_kept() == "no keeper");
  CHECK(c10::get_default_dtype_as_scalartype() == at::kFloat);
}

TEST_CASE("flags of determinism that a program has chosen are restored one by one", "[process]") {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  context.setDeterministicMkldnn(false);
  {
    ComputeSettings settings;
    settings.make_reproducible();
    CHECK_FALSE(context.deterministicAlgorithmsWarnOnly());
    CHECK(context.deterministicMkldnn());
  }
  CHECK(context.deterministicAlgorithms());
  CHECK(context.deterministicAlgorithmsWarnOnly());
  CHECK_FALSE(context.deterministicMkldnn());
  set_deterministic(Deterministic::kNo);
}

TEST_CASE("settings within settings restore those around them", "[process]") {
  at::set_num_threads(1);
  ComputeSettings outer;
  outer.use_threads(2);
  outer.use_default_dtype(at::kDouble);
  {
    ComputeSettings inner;
    inner.use_threads(1);
    inner.use_default_dtype(at::kFloat);
    CHECK(at::get_num_threads() == 1);
  }
  CHECK(at::get_num_threads() == 2);
  CHECK(c10::get_default_dtype_as_scalartype() == at::kDouble);
}

TEST_CASE("a number of threads that is refused changes nothing", "[process]") {
  at::set_num_threads(1);
  {
    ComputeSettings settings;
    CHECK_THROWS_AS(settings.use_threads(0), Error);
    CHECK(at::get_num_threads() == 1);
  }
  CHECK(at::get_num_threads() == 1);
}

}  // namespace tenon
