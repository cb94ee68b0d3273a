// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/hook_proxy.hpp"

#include <map>
#include <string>

#include "tests/plugins/fake_run.hpp"
#include "tests/plugins/made_component.hpp"

namespace {

tenon::HookProxy make_lr_monitor(const std::string& options = "{}") {
  return tenon::HookProxy(tenon::make_component("hook", "lr_monitor", options));
}

// Two groups whose optimizers differ in their options.
void give_groups(tenon::FakeRun& run) {
  run.lr_groups = {
      {"default", 0.5, {{"/weight_decay", 0.1}, {"/betas/0", 0.9}, {"/betas/1", 0.99}}},
      {"group0", 0.25, {{"/momentum", 0.75}}}};
}

using Metrics = std::map<std::string, double>;

}  // namespace

TEST_CASE("lr_monitor asks for the event before the line of metrics, and writes nothing",
          "[plugins]") {
  const auto hook = make_lr_monitor();
  CHECK(hook.info().events == TENON_EVENT_BIT(TENON_EVENT_AFTER_OPTIMIZER_STEP));
  CHECK(hook.info().rank_0_only);
  CHECK(hook.info().writes == 0);
}

TEST_CASE("lr_monitor records the rate of each group at each step", "[plugins]") {
  const auto hook = make_lr_monitor();
  tenon::FakeRun run;
  give_groups(run);
  run.fire(hook, TENON_EVENT_AFTER_OPTIMIZER_STEP, 1);
  CHECK(run.metrics == Metrics{{"lr_monitor/default/lr", 0.5}, {"lr_monitor/group0/lr", 0.25}});
  run.lr_groups[1].rate = 0.125;
  run.fire(hook, TENON_EVENT_AFTER_OPTIMIZER_STEP, 2);
  CHECK(run.metrics["lr_monitor/group0/lr"] == 0.125);
}

TEST_CASE("lr_monitor records options of optimizers that have them", "[plugins]") {
  const auto hook = make_lr_monitor(R"({"also": ["weight_decay", "betas", "momentum"]})");
  tenon::FakeRun run;
  give_groups(run);
  run.fire(hook, TENON_EVENT_AFTER_OPTIMIZER_STEP, 1);
  CHECK(run.metrics == Metrics{{"lr_monitor/default/lr", 0.5},
                               {"lr_monitor/default/weight_decay", 0.1},
                               {"lr_monitor/default/betas.0", 0.9},
                               {"lr_monitor/default/betas.1", 0.99},
                               {"lr_monitor/group0/lr", 0.25},
                               {"lr_monitor/group0/momentum", 0.75}});
}

TEST_CASE("lr_monitor refuses an option that no optimizer has", "[plugins]") {
  const auto hook = make_lr_monitor(R"({"also": ["wait_decay"]})");
  tenon::FakeRun run;
  give_groups(run);
  CHECK_THAT(tenon::error_of([&] { run.fire(hook, TENON_EVENT_AFTER_OPTIMIZER_STEP, 1); }),
             tenon::contains_text("wait_decay"));
}
