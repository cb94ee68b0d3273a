// SPDX-License-Identifier: Apache-2.0
#include "host/train/whole_state.hpp"

#include "host/error/error.hpp"
#include "host/train/run_state/run_state_names.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

class Number final : public Stateful {
 public:
  void snapshot(StateTree& tree, const std::string& prefix) const override {
    tree.put_int(state_path(prefix, "value"), value);
  }
  void load(const StateTree& tree, const std::string& prefix) override {
    value = tree.get_int(state_path(prefix, "value"));
  }
  int64_t value = 0;
};

class TestPlace final : public WithStateFields<TestPlace> {
 public:
  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.field("step", self.step);
    f.field("windows", self.windows, kKeptOnRollBack);
  }
  int64_t step = 0;
  int64_t windows = 0;
};

struct StateRig {
  StateRig()
      : whole({.trained = {{"parameters", &parameters}, {"guard", &guard}},
               .data = {{"data/train", &data}},
               .weights = {{"parameters", &parameters}},
               .before_snapshot = [this] { ++num_snapshots; }}) {
    whole.add({&place});
  }

  StateTree taken() {
    StateTree tree;
    whole.snapshot(tree);
    return tree;
  }
  void set(int64_t value) {
    for (Number* const number : {&parameters, &guard, &data}) {
      number->value = value;
    }
    place.step = value;
    place.windows = value;
  }

  Number parameters;
  Number guard;
  Number data;
  TestPlace place;
  int num_snapshots = 0;
  WholeState whole;
};

}  // namespace

TEST_CASE("the state of a run has all of its parts, below their names", "[train]") {
  StateRig rig;
  rig.set(5);
  const StateTree tree = rig.taken();
  CHECK(rig.num_snapshots == 1);
  CHECK(tree.version("") == kRunStateVersion);
  for (const char* name : {"parameters/value", "guard/value", "data/train/value", "run/step"}) {
    CHECK(tree.get_int(name) == 5);
  }
  StateTree weights;
  rig.whole.snapshot_weights(weights);
  CHECK(weights.entries().size() == 1);
}

TEST_CASE("a load takes positions in the data separately", "[train]") {
  StateRig rig;
  rig.set(5);
  const StateTree tree = rig.taken();
  rig.set(9);
  rig.whole.load(tree);
  CHECK(rig.parameters.value == 5);
  CHECK(rig.place.step == 5);
  CHECK(rig.place.windows == 5);
  CHECK(rig.data.value == 9);
  rig.whole.load_data(tree);
  CHECK(rig.data.value == 5);
}

TEST_CASE("a position in the data is new unless it is that of the last load", "[train]") {
  StateRig rig;
  rig.set(5);
  CHECK(rig.whole.has_new_position());  // nothing was loaded
  const StateTree tree = rig.taken();
  rig.whole.load(tree);
  rig.whole.load_data(tree);
  CHECK_FALSE(rig.whole.has_new_position());
  rig.parameters.value = 6;
  rig.place.windows = 6;
  CHECK_FALSE(rig.whole.has_new_position());
  rig.data.value = 6;
  CHECK(rig.whole.has_new_position());
}

TEST_CASE("a roll-back keeps the position in the data", "[train]") {
  StateRig rig;
  rig.set(5);
  const StateTree tree = rig.taken();
  rig.set(9);
  rig.whole.roll_back(tree);
  CHECK(rig.parameters.value == 5);
  CHECK(rig.guard.value == 5);
  CHECK(rig.place.step == 5);
  CHECK(rig.place.windows == 9);
  CHECK(rig.data.value == 9);
}

TEST_CASE("a state of another version is refused, before anything changes", "[train]") {
  StateRig rig;
  rig.set(5);
  StateTree tree = rig.taken();
  tree.set_version("", kRunStateVersion + 1);
  rig.set(9);
  CHECK_THROWS_AS(rig.whole.load(tree), Error);
  CHECK(rig.parameters.value == 9);
}

}  // namespace tenon
