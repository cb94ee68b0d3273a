// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/hook_proxy.hpp"
#include "host/plugin/stateful_proxy.hpp"
#include "host/tensor/state/state_bridge.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tests/plugins/fake_run.hpp"
#include "tests/plugins/made_component.hpp"

namespace {

using tenon::FakeRun;
using tenon::HookProxy;

HookProxy make_spike_guard(const std::string& options) {
  return HookProxy(tenon::make_component("hook", "spike_guard", options));
}

// One step after the other, from `first` on, with these losses; none where a rank had no sample.
void take_steps(const HookProxy& hook,
                FakeRun& run,
                uint64_t first,
                const std::vector<std::optional<double>>& losses) {
  run.scalars["applied"] = at::scalar_tensor(1.0, at::kDouble);
  for (const auto& loss : losses) {
    run.scalars.erase("loss");
    if (loss.has_value()) {
      run.scalars["loss"] = at::scalar_tensor(*loss, at::kDouble);
    }
    run.fire(hook, TENON_EVENT_AFTER_STEP, first++);
  }
}

// The first bad steps that it requested to roll back.
std::vector<uint64_t> requests_of(const std::string& options,
                                  const std::vector<std::optional<double>>& losses) {
  const HookProxy hook = make_spike_guard(options);
  FakeRun run;
  take_steps(hook, run, 1, losses);
  std::vector<uint64_t> steps;
  for (const auto& request : run.requests) {
    CHECK(request.requests == TENON_REQUEST_ROLL_BACK);
    steps.push_back(request.first_bad_step);
  }
  return steps;
}

using Steps = std::vector<uint64_t>;

constexpr char kSmall[] = R"({"window": 4, "warm_up": 0, "factor": 3})";

}  // namespace

TEST_CASE("spike_guard asks for the ends of steps, on all ranks", "[plugins]") {
  const HookProxy hook = make_spike_guard("{}");
  CHECK(hook.info().events == TENON_EVENT_BIT(TENON_EVENT_AFTER_STEP));
  CHECK_FALSE(hook.info().rank_0_only);
  CHECK(hook.info().writes == 0);
}

TEST_CASE("spike_guard sees a loss that is far above what was usual", "[plugins]") {
  CHECK(requests_of(kSmall, {2.0, 2.2, 1.8, 2.0, 2.1, 1.9}).empty());
  CHECK(requests_of(kSmall, {2.0, 2.2, 1.8, 2.0, 9.0, 2.0}) == Steps{5});
  CHECK(requests_of(kSmall, {2.0, 2.2, 1.8, 2.0, 0.1, 2.0}).empty());  // a fall is none
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(requests_of(kSmall, {2.0, 2.2, 1.8, std::nan(""), 2.0, infinity}) == Steps{4, 6});
}

TEST_CASE("spike_guard judges no step before it knows what is usual", "[plugins]") {
  CHECK(requests_of(kSmall, {2.0, 9.0, 2.0, 9.0}).empty());
  CHECK(requests_of(R"({"window": 4, "warm_up": 5})", {2, 2.2, 1.8, 2, 9, 2}).empty());
  CHECK(requests_of(R"({"window": 4, "warm_up": 4})", {2, 2.2, 1.8, 2, 9, 2}) == Steps{5});
}

TEST_CASE("spike_guard takes a small rise of a steady loss for none", "[plugins]") {
  CHECK(requests_of(kSmall, {2, 2, 2, 2, 2.1}).empty());
  CHECK(requests_of(kSmall, {2, 2, 2, 2, 2.3}) == Steps{5});
  CHECK(requests_of(R"({"window": 4, "warm_up": 0, "min_rise": 0})", {2, 2, 2, 2, 2.1}) ==
        Steps{5});
  CHECK(requests_of(R"({"window": 4, "warm_up": 0, "min_rise": 2})", {2, 2, 2, 2, 5}).empty());
}

TEST_CASE("spike_guard is patient, and names the first step of the row", "[plugins]") {
  const std::string patient = R"({"window": 4, "warm_up": 0, "factor": 3, "patience": 3})";
  CHECK(requests_of(patient, {2, 2.2, 1.8, 2, 9, 9, 2, 9, 9}).empty());
  CHECK(requests_of(patient, {2, 2.2, 1.8, 2, 9, 9, 9}) == Steps{5});
  // What was bad is not counted into what is usual.
  CHECK(requests_of(patient, {2, 2.2, 1.8, 2, 9, 9, 9, 9, 9, 9}) == Steps{5, 8});
}

TEST_CASE("spike_guard passes over steps that came to nothing, and over ranks without samples",
          "[plugins]") {
  const HookProxy hook = make_spike_guard(kSmall);
  FakeRun run;
  take_steps(hook, run, 1, {2, std::nullopt, 2, 2, 2});
  run.scalars["applied"] = at::scalar_tensor(0.0, at::kDouble);
  run.scalars["loss"] = at::scalar_tensor(std::nan(""), at::kDouble);
  run.fire(hook, TENON_EVENT_AFTER_STEP, 6);
  CHECK(run.requests.empty());
  take_steps(hook, run, 7, {9});
  REQUIRE(run.requests.size() == 1);
  CHECK(run.requests[0].first_bad_step == 7);
  CHECK(run.requests[0].reason ==
        "spike_guard: the loss of step 7 is 9 (recent mean 2, standard deviation 0)");
}

TEST_CASE("spike_guard watches the norm of the gradients where it is told to", "[plugins]") {
  const HookProxy hook =
      make_spike_guard(R"({"window": 2, "warm_up": 0, "factor": 3, "watch": "grad_norm"})");
  FakeRun run;
  run.scalars["applied"] = at::scalar_tensor(1.0, at::kDouble);
  for (const double norm : {1.0, 1.1, 7.0}) {
    run.scalars["grad_norm"] = at::scalar_tensor(norm, at::kDouble);
    run.fire(hook, TENON_EVENT_AFTER_STEP, 1 + run.metrics.size());
    run.metrics[std::to_string(norm)] = norm;
  }
  REQUIRE(run.requests.size() == 1);
  CHECK(run.requests[0].first_bad_step == 3);
}

TEST_CASE("spike_guard goes back to, and on from, its state", "[plugins]") {
  const std::string options = R"({"window": 4, "warm_up": 0, "factor": 3, "patience": 2})";
  const HookProxy first = make_spike_guard(options);
  FakeRun run;
  take_steps(first, run, 1, {2, 2.2, 1.8, 2, 9});
  tenon::StateTree tree;
  const auto before = tenon::StatefulProxy::of(first.instance());
  REQUIRE(before);
  tenon::StateWriter writer(tree, "hooks/0", before->version(), nullptr);
  before->snapshot(*writer.abi());

  // Into one that is at work, and has seen other losses.
  const HookProxy second = make_spike_guard(options);
  FakeRun later;
  take_steps(second, later, 1, {90, 91, 90, 92, 91});
  const auto after = tenon::StatefulProxy::of(second.instance());
  tenon::StateReader reader(tree, "hooks/0", nullptr);
  after->load(*reader.abi());
  take_steps(second, later, 6, {9});
  REQUIRE(later.requests.size() == 1);
  CHECK(later.requests[0].first_bad_step == 5);

  // Of other ranks it has nothing, and begins anew.
  tenon::StateTree empty;
  empty.set_version("hooks/0", before->version());
  tenon::StateReader nothing(empty, "hooks/0", nullptr);
  after->load(*nothing.abi());
  take_steps(second, later, 1, {9, 9, 9});
  CHECK(later.requests.size() == 1);
}
