// SPDX-License-Identifier: Apache-2.0
#include "host/train/loop_requests.hpp"

#include <tenon/hook.h>

#include "host/error/error.hpp"

#include <array>

#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

constexpr LoopRequests::Possible kAll = {.evaluate = true, .checkpoint = true, .roll_back = true};

struct RequestRig {
  explicit RequestRig(Group& collective, LoopRequests::Possible possible = kAll)
      : stop(train, state, collective, nullptr), requests(collective, state, stop, possible) {}

  TrainRecipe train;
  RunState state = {.step = 5};
  StopConditions stop;
  LoopRequests requests;
};

std::string request_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.id();
  }
  return "";
}

}  // namespace

TEST_CASE("requests that the recipe rules out are errors", "[train]") {
  LocalGroup alone;
  RequestRig rig(alone, {});
  for (const uint32_t request : std::initializer_list<uint32_t>{
           TENON_REQUEST_EVALUATE, TENON_REQUEST_CHECKPOINT, TENON_REQUEST_ROLL_BACK, 1u << 20}) {
    CHECK(request_error([&] { rig.requests.request(request, "why"); }) == "hook.bad_request");
  }
  RequestRig possible(alone);
  CHECK(request_error([&] { possible.requests.request_roll_back(6, ""); }) == "hook.bad_request");
  CHECK(request_error([&] { possible.requests.request_roll_back(0, ""); }) == "hook.bad_request");
  CHECK(request_error([&] { possible.requests.request_roll_back(5, ""); }).empty());
}

TEST_CASE("between steps requests act at once, except those that are meant for a step", "[train]") {
  LocalGroup alone;
  RequestRig rig(alone);
  int num_evaluations = 0;
  rig.requests.on_evaluate([&] { ++num_evaluations; });
  rig.requests.request(
      TENON_REQUEST_EVALUATE | TENON_REQUEST_CHECKPOINT | TENON_REQUEST_SKIP_UPDATE, "");
  rig.requests.sync();
  CHECK(num_evaluations == 1);
  CHECK(rig.requests.take_checkpoint());
  CHECK_FALSE(rig.requests.take_checkpoint());
  CHECK(rig.requests.votes().pending().has(Vote::kSkipUpdate));
  CHECK_FALSE(rig.stop.is_over());
  rig.requests.request(TENON_REQUEST_STOP, "enough");
  rig.requests.sync();
  CHECK(num_evaluations == 1);
  CHECK(rig.stop.reason() == "enough");
}

TEST_CASE("pending requests act in the resumed run, and only there", "[train]") {
  LocalGroup alone;
  RequestRig before(alone);
  before.requests.request(TENON_REQUEST_EVALUATE, "");
  before.requests.request_roll_back(4, "loss is 1e9");
  before.requests.request_roll_back(3, "loss is 1e6");
  StateTree tree;
  before.requests.put_fields(tree, "run");
  CHECK(tree.get_int("run/wishes/evaluate") == 1);
  CHECK(tree.get_int("run/wishes/stop") == 0);
  CHECK(tree.get_int("run/spike/step") == 3);

  RequestRig after(alone);
  after.requests.get_fields(tree, "run");
  CHECK_FALSE(after.requests.votes().pending().has(Vote::kEvaluate));
  after.requests.resume();
  CHECK(after.requests.votes().pending().has(Vote::kEvaluate));
  CHECK(after.requests.votes().pending().has(Vote::kRollBack));
  after.requests.forget();
  after.requests.resume();
  CHECK_FALSE(after.requests.votes().pending().has(Vote::kEvaluate));

  RequestRig without(alone, {});
  without.requests.get_fields(tree, "run");
  StateTree again;
  without.requests.put_fields(again, "run");
  CHECK(again.find("run/spike/step") == nullptr);
}

TEST_CASE("the earliest step that any rank names is rolled back to", "[train]") {
  std::array<std::optional<LossSpike>, 3> spikes;
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    RequestRig rig(control);
    if (control.rank() > 0) {
      rig.requests.request_roll_back(6 - control.rank(), "");
    }
    rig.requests.votes().start();
    const Decision decision = rig.requests.votes().resolve();
    spikes[control.rank()] = rig.requests.take_spike(decision);
  });
  for (const auto& spike : spikes) {
    REQUIRE(spike.has_value());
    CHECK(spike->first_bad_step == 4);
    CHECK(spike->why == "a hook requested it");
  }
}

}  // namespace tenon
