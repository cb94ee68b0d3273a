// SPDX-License-Identifier: Apache-2.0
#include "host/train/roll_back.hpp"

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

CheckpointRecipe with_roll_back(int64_t most) {
  CheckpointRecipe recipe;
  recipe.every.steps = 1;
  recipe.on_spike = OnSpike::kRollBack;
  recipe.max_roll_backs = most;
  return recipe;
}

// The run's place, which the trainer has.
class Position final : public WithStateFields<Position> {
 public:
  explicit Position(RunState& state) : state_(state) {}
  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.field("step", self.state_.step);
    f.field("epochs", self.state_.epochs, kKeptOnRollBack);
    f.field("windows", self.state_.windows, kKeptOnRollBack);
  }

 private:
  RunState& state_;
};

// Three steps with a checkpoint each; the weight is the step.
struct RollBackRig {
  explicit RollBackRig(int64_t most = 1) {
    run.recipe.checkpoint = with_roll_back(most);
    loop.emplace(run);
    position.emplace(loop->state);
    roll_back.emplace(loop->run, loop->state, loop->finite_check, loop->checkpoints, loop->whole);
    loop->whole.add({&*position, &*roll_back});
    loop->feed.begin_epoch(0);
    REQUIRE(loop->feed.open_next() == NextWindow::kOpen);
    for (loop->state.step = 1; loop->state.step < 4; ++loop->state.step) {
      run.set_weight(static_cast<double>(loop->state.step));
      loop->checkpoints.save_if_due(RunBoundary::kStep);
    }
    loop->checkpoints.finish();
    loop->state.step = 3;
  }

  RunRig run;
  std::optional<LoopRig> loop;
  std::optional<Position> position;
  std::optional<RollBack> roll_back;
};

}  // namespace

TEST_CASE("a loss spike loads the last checkpoint from before it", "[train]") {
  RollBackRig rig;
  CHECK_FALSE(rig.roll_back->is_due());
  rig.roll_back->note(std::nullopt);
  CHECK_FALSE(rig.roll_back->is_due());
  rig.roll_back->note(LossSpike{3, "loss is 1e9"});
  REQUIRE(rig.roll_back->is_due());
  const RollBack::Result result = rig.roll_back->run();
  CHECK(result.why == "loss is 1e9");
  CHECK(result.is_same_window);
  CHECK(rig.loop->state.step == 2);
  CHECK(rig.run.weight() == 2);
  CHECK_FALSE(rig.roll_back->is_due());
  REQUIRE(rig.roll_back->records().size() == 1);
  CHECK(rig.roll_back->records()[0].step == 3);
  CHECK(rig.roll_back->records()[0].to == 2);

  StateTree tree;
  rig.roll_back->put_fields(tree, "run");
  CHECK(tree.get_int("run/roll_backs/0/to") == 2);
  CHECK(tree.get_bytes("run/roll_backs/0/bundle") == "step-00000002_epoch-0");
  CHECK(tree.get_bytes("run/roll_backs/0/why") == "loss is 1e9");

  rig.roll_back->note(LossSpike{2, "again"});
  CHECK_THROWS_WITH(rig.roll_back->run(), contains_text("max_roll_backs"));
}

TEST_CASE("a run that cannot roll back ends with what went wrong", "[train]") {
  RollBackRig rig;
  rig.roll_back->note(LossSpike{1, "loss is NaN"});
  CHECK_THROWS_WITH(rig.roll_back->run(),
                    contains_text("train.spike") && contains_text("loss is NaN") &&
                        contains_text("before step 1"));
  CHECK(rig.run.weight() == 3);
}

TEST_CASE("non-finite updates that fail a run roll it back", "[train]") {
  RollBackRig rig;
  rig.loop->finite_check.guard().record(3, false, [] { return std::string("in block a"); });
  REQUIRE(rig.roll_back->is_due());
  rig.roll_back->pin_good();
  CHECK_THAT(rig.roll_back->run().why, contains_text("in block a"));
  CHECK(rig.loop->state.step == 2);
  CHECK_FALSE(rig.roll_back->is_due());
}

}  // namespace tenon
