// SPDX-License-Identifier: Apache-2.0
#include "host/train/whole_state.hpp"

#include "host/error/error.hpp"
#include "host/train/run_state/run_state_names.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

class TestProgress final : public WithStateFields<TestProgress> {
 public:
  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.field("step", self.step);
    f.field("windows", self.windows, kKeptOnRollBack);
  }
  int64_t step = 0;
  int64_t windows = 0;
};

// The state of a run whose weight and progress are numbers, and whose position is a sample.
struct StateRig {
  StateRig() {
    loop.emplace(run);
    loop->whole.add({&progress});
    loop->feed.begin_epoch(0);
    REQUIRE(loop->feed.open_next() == NextWindow::kOpen);
  }

  WholeState& whole() { return loop->whole; }
  StateTree taken() {
    StateTree tree;
    whole().snapshot(tree);
    return tree;
  }
  void set(int64_t value) {
    run.set_weight(static_cast<double>(value));
    progress.step = value;
    progress.windows = value;
    loop->finite_check.guard().record(static_cast<uint64_t>(value), false, [] { return ""; });
  }
  // Takes a batch of training.
  void read() { loop->feed.take_microbatches(); }
  int64_t position() { return run.data->train.loader().position().cursor; }

  RunRig run;
  TestProgress progress;
  std::optional<LoopRig> loop;
};

}  // namespace

TEST_CASE("the state of a run has all of its parts, below their names", "[train]") {
  StateRig rig;
  rig.set(5);
  const StateTree tree = rig.taken();
  CHECK(tree.version("") == kRunStateVersion);
  for (const char* name : {"parameters", "optimizer", "metrics", "guard", "data/train", "run"}) {
    INFO(name);
    CHECK(tree.has_subtree(name));
  }
  CHECK(tree.get_int("run/step") == 5);
  StateTree weights;
  rig.whole().snapshot_weights(weights);
  for (const auto& [name, entry] : weights.entries()) {
    CHECK(name.starts_with("parameters/"));
  }
  CHECK_FALSE(weights.entries().empty());
}

TEST_CASE("a load takes positions in the data separately", "[train]") {
  StateRig rig;
  rig.set(5);
  rig.read();
  const StateTree tree = rig.taken();
  const int64_t position = rig.position();
  rig.set(9);
  rig.read();
  REQUIRE(rig.position() != position);
  rig.whole().load(tree);
  CHECK(rig.run.weight() == 5);
  CHECK(rig.progress.step == 5);
  CHECK(rig.progress.windows == 5);
  CHECK(rig.position() != position);
  rig.whole().load_data(tree);
  CHECK(rig.position() == position);
}

TEST_CASE("a position in the data is new unless it is that of the last load", "[train]") {
  StateRig rig;
  rig.read();
  CHECK(rig.whole().has_new_position());  // nothing was loaded
  const StateTree tree = rig.taken();
  rig.whole().load(tree);
  rig.whole().load_data(tree);
  CHECK_FALSE(rig.whole().has_new_position());
  rig.set(6);
  CHECK_FALSE(rig.whole().has_new_position());
  rig.read();
  CHECK(rig.whole().has_new_position());
}

TEST_CASE("a roll-back keeps the position in the data", "[train]") {
  StateRig rig;
  rig.set(5);
  const StateTree tree = rig.taken();
  rig.set(9);
  rig.read();
  const int64_t position = rig.position();
  rig.whole().roll_back(tree);
  CHECK(rig.run.weight() == 5);
  CHECK(rig.loop->finite_check.guard().count().last_step == 5);
  CHECK(rig.progress.step == 5);
  CHECK(rig.progress.windows == 9);
  CHECK(rig.position() == position);
}

TEST_CASE("a state of another version is refused, before anything changes", "[train]") {
  StateRig rig;
  rig.set(5);
  StateTree tree = rig.taken();
  tree.set_version("", kRunStateVersion + 1);
  rig.set(9);
  CHECK_THROWS_AS(rig.whole().load(tree), Error);
  CHECK(rig.run.weight() == 9);
}

}  // namespace tenon
