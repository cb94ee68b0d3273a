// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/imagined_run.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"

namespace tenon {
namespace {

tenon_status* describe(void* /*self*/, tenon_hook_info* out) {
  out->events = TENON_ALL_EVENTS;
  return nullptr;
}

// Notes each event in the vector that `self` points to.
tenon_status* on_event(void* self, const tenon_event* event) {
  static_cast<std::vector<uint32_t>*>(self)->push_back(event->id);
  return nullptr;
}

HookProxy hook_for_all(std::vector<uint32_t>& events) {
  static const tenon_hook table = {sizeof(tenon_hook), &describe, &on_event};
  return HookProxy(made_instance("hook", TENON_HOOK_ID, &table, &events));
}

}  // namespace

TEST_CASE("a hook meets each event in an imagined run, the end last", "[check]") {
  std::vector<uint32_t> events;
  ImaginedRun run(hook_for_all(events), ExecBase{}, "nowhere", ImaginedRun::Served::kBare);
  run.begin({});
  run.train(1, 2, {});
  run.end({});
  const std::set<uint32_t> met(events.begin(), events.end());
  CHECK(met.size() == TENON_NUM_EVENTS);
  REQUIRE(events.size() > 2);
  CHECK(events[events.size() - 2] == TENON_EVENT_ON_ERROR);
  CHECK(events.back() == TENON_EVENT_END);
}

TEST_CASE("events without a place in an imagined run come before its error", "[check]") {
  std::vector<uint32_t> events;
  ImaginedRun run(hook_for_all(events), ExecBase{}, "nowhere", ImaginedRun::Served::kBare);
  run.end({});  // without the events of begin and train
  CHECK(events.size() == TENON_NUM_EVENTS);
  CHECK(std::set<uint32_t>(events.begin(), events.end()).size() == TENON_NUM_EVENTS);
  const auto error = std::find(events.begin(), events.end(), TENON_EVENT_ON_ERROR);
  CHECK(events.end() - error == 2);
}

}  // namespace tenon
