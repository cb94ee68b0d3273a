// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/hook_proxy.hpp"
#include "host/plugin/stateful_proxy.hpp"
#include "host/tensor/state/state_bridge.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "tests/plugins/fake_run.hpp"
#include "tests/plugins/made_component.hpp"

namespace {

tenon::HookProxy make_early_stop(const std::string& options = "{}") {
  return tenon::HookProxy(tenon::make_component("hook", "early_stop", options));
}

// Evaluates with these losses in turn; the number of evaluations after which it requested a stop,
// or 0.
size_t stops_after(const tenon::HookProxy& hook,
                   tenon::FakeRun& run,
                   const std::vector<double>& losses,
                   const std::string& metric = "eval/loss") {
  for (size_t i = 0; i < losses.size(); ++i) {
    run.metrics[metric] = losses[i];
    run.fire(hook, TENON_EVENT_AFTER_EVALUATE, i + 1);
    if (!run.requests.empty()) {
      return i + 1;
    }
  }
  return 0;
}

size_t stops_after(const std::string& options,
                   const std::vector<double>& losses,
                   const std::string& metric = "eval/loss") {
  const auto hook = make_early_stop(options);
  tenon::FakeRun run;
  return stops_after(hook, run, losses, metric);
}

}  // namespace

TEST_CASE("early_stop asks for nothing but the ends of evaluations", "[plugins]") {
  const auto hook = make_early_stop();
  CHECK(hook.info().events == TENON_EVENT_BIT(TENON_EVENT_AFTER_EVALUATE));
  CHECK(hook.info().rank_0_only);
  CHECK(hook.info().writes == 0);
}

TEST_CASE("early_stop ends a run after as many evaluations without progress as it is patient",
          "[plugins]") {
  CHECK(stops_after("{}", {3, 2, 2, 2.5, 2}) == 5);
  CHECK(stops_after("{}", {3, 2, 2, 2.5, 1, 1, 1}) == 0);
  CHECK(stops_after(R"({"patience": 1})", {3, 2, 2}) == 3);
  CHECK(stops_after(R"({"mode": "max", "patience": 2})", {1, 2, 3, 3, 2}) == 5);
  CHECK(stops_after(
            R"({"metric": "eval/acc", "mode": "max", "patience": 1})", {1, 0}, "eval/acc") == 2);
}

TEST_CASE("early_stop takes less than min_delta for no progress", "[plugins]") {
  CHECK(stops_after(R"({"patience": 2, "min_delta": 0.5})", {3, 2.75, 2.5}) == 3);
  CHECK(stops_after(R"({"patience": 2, "min_delta": 0.5})", {3, 2.75, 2.25, 2, 1.5}) == 0);
}

TEST_CASE("early_stop takes NaN for no progress", "[plugins]") {
  const double nan = std::nan("");
  CHECK(stops_after(R"({"patience": 2})", {nan, nan}) == 2);
  CHECK(stops_after(R"({"patience": 2})", {nan, 5, nan, nan}) == 4);
  CHECK(stops_after(R"({"patience": 2})", {nan, 5, nan, 4, nan}) == 0);
}

TEST_CASE("early_stop requests a stop alone, with a reason", "[plugins]") {
  const auto hook = make_early_stop(R"({"patience": 2})");
  tenon::FakeRun run;
  CHECK(stops_after(hook, run, {2.5, 3, 3}) == 3);
  REQUIRE(run.requests.size() == 1);
  CHECK(run.requests[0].requests == TENON_REQUEST_STOP);
  CHECK(run.requests[0].reason == "early_stop: eval/loss did not improve on 2.5 in 2 evaluations");
}

TEST_CASE("early_stop looks when its figure is new, and at no other evaluation", "[plugins]") {
  const auto stops = [](const std::string& metric, const std::string& family) {
    const auto hook = make_early_stop(R"({"patience": 1, "metric": ")" + metric + "\"}");
    tenon::FakeRun run;
    run.message = family;
    return stops_after(hook, run, {1, 2}, metric);
  };
  CHECK(stops("next/loss", "next/") == 2);
  CHECK(stops("next/loss", "") == 0);
  CHECK(stops("eval/loss", "next/") == 0);
  CHECK(stops("eval/loss", "test/") == 0);
  CHECK(stops("loss", "") == 2);
}

TEST_CASE("early_stop says which figure is missing", "[plugins]") {
  const auto hook = make_early_stop(R"({"metric": "eval/accuracy"})");
  tenon::FakeRun run;
  run.metrics["eval/loss"] = 1;
  CHECK_THAT(tenon::error_of([&] { run.fire(hook, TENON_EVENT_AFTER_EVALUATE, 1); }),
             tenon::contains_text("eval/accuracy"));
}

TEST_CASE("early_stop goes on from its state as if it had never stopped", "[plugins]") {
  const auto first = make_early_stop();
  tenon::FakeRun run;
  CHECK(stops_after(first, run, {3, 2, 2.5, 2.25}) == 0);
  tenon::StateTree tree;
  const auto before = tenon::StatefulProxy::of(first.instance());
  REQUIRE(before);
  tenon::StateWriter writer(tree, "hooks/0", before->version(), nullptr);
  before->snapshot(*writer.abi());

  const auto second = make_early_stop();
  const auto after = tenon::StatefulProxy::of(second.instance());
  tenon::StateReader reader(tree, "hooks/0", nullptr);
  after->load(*reader.abi());
  tenon::FakeRun later;
  CHECK(stops_after(second, later, {2}) == 1);
}
