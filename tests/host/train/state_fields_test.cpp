// SPDX-License-Identifier: Apache-2.0
#include "host/train/state_fields.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

struct Element {
  std::string name;
  uint64_t count = 0;
};

class Owner : public WithStateFields<Owner> {
 public:
  uint64_t steps = 0;
  int64_t windows = 0;
  bool is_on = false;
  double seconds = 0;
  std::string label;
  std::map<std::string, double> metrics;
  at::Tensor skips;
  std::vector<Element> elements;
  std::vector<Element> kept;
  int computed = 0;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.field("steps", self.steps);
    f.field("windows", self.windows, kKeptOnRollBack);
    f.field("is_on", self.is_on);
    f.field("seconds", self.seconds, kOwnOfRank | kNotNegative);
    f.field("label", self.label);
    f.field("metrics", self.metrics);
    f.field("skips", self.skips);
    const auto element = [](auto& fields, auto& one) {
      fields.field("name", one.name);
      fields.field("count", one.count);
    };
    f.list("elements", self.elements, element);
    f.list("kept", self.kept, element, kKeptOnRollBack);
    f.computed(
        "computed",
        [&] { return self.computed * 2; },
        [&](auto value) { self.computed = value / 2; });
  }
};

// An owner with a value in each field.
struct Made : Owner {
  Made() {
    steps = 7;
    windows = -3;
    is_on = true;
    seconds = 1.5;
    label = "day 1";
    metrics = {{"eval/loss", 0.1}, {"inf", std::numeric_limits<double>::infinity()}};
    skips = at::tensor({1.0, 2.0});
    elements = {{"a", 1}, {"b", 2}};
    kept = {{"c", 3}};
    computed = 21;
  }
};

}  // namespace

TEST_CASE("every kind of field comes back from a tree", "[train]") {
  StateTree tree;
  Made().put_fields(tree, "run");
  CHECK(tree.get_int("run/steps") == 7);
  CHECK(tree.get_int("run/is_on") == 1);
  CHECK(tree.get_bytes("run/elements/1/name") == "b");
  CHECK(tree.get_int("run/computed") == 42);
  CHECK(tree.find("run/seconds")->scope == TENON_STATE_PER_RANK);
  CHECK(tree.find("run/steps")->scope == TENON_STATE_REPLICATED);
  Owner owner;
  owner.elements = {{"x", 9}, {"y", 9}, {"z", 9}};
  owner.get_fields(tree, "run");
  CHECK(owner.steps == 7);
  CHECK(owner.windows == -3);
  CHECK(owner.is_on);
  CHECK(owner.seconds == 1.5);
  CHECK(owner.label == "day 1");
  CHECK(owner.metrics == Made().metrics);
  CHECK(at::equal(owner.skips, Made().skips));
  REQUIRE(owner.elements.size() == 2);
  CHECK(owner.elements[1].count == 2);
  CHECK(owner.computed == 21);
  StateTree again;
  owner.put_fields(again, "run");
  CHECK(again == tree);
}

TEST_CASE("a roll-back loads all fields but those that are kept", "[train]") {
  StateTree tree;
  Made().put_fields(tree, "run");
  Owner owner;
  owner.windows = 5;
  owner.kept = {{"d", 4}, {"e", 5}};
  owner.get_fields(tree, "run", FieldsToLoad::kRolledBack);
  CHECK(owner.steps == 7);
  CHECK(owner.windows == 5);
  CHECK(owner.kept.size() == 2);
  CHECK(owner.elements.size() == 2);
}

TEST_CASE("fields of a rank stay if the tree lacks them; others are an error", "[train]") {
  StateTree tree;
  Made().put_fields(tree, "run");
  const auto without = [&](const std::string& excluded) {
    StateTree result;
    for (const auto& [name, entry] : tree.entries()) {
      if (name != excluded) {
        result.put_entry(name, entry);
      }
    }
    return result;
  };
  Owner owner;
  owner.seconds = 8;
  owner.get_fields(without("run/seconds"), "run");
  CHECK(owner.seconds == 8);
  CHECK_THROWS_AS(owner.get_fields(without("run/steps"), "run"), Error);
  owner.get_fields(without("run/skips"), "run");
  CHECK_FALSE(owner.skips.defined());
}

TEST_CASE("numbers that no run saves are refused with their entry", "[train]") {
  const auto refused = [](const char* name, auto put) {
    StateTree tree;
    Made().put_fields(tree, "run");
    StateTree changed;
    for (const auto& [entry, value] : tree.entries()) {
      if (entry != name) {
        changed.put_entry(entry, value);
      }
    }
    put(changed);
    try {
      Owner().get_fields(changed, "run");
      return std::string();
    } catch (const Error& error) {
      CHECK(error.id() == "state.bad_value");
      return error.message();
    }
  };
  const auto with_int = [&](const char* name, int64_t value) {
    return refused(name, [&](StateTree& tree) { tree.put_int(name, value); });
  };
  CHECK_THAT(with_int("run/steps", -1), contains_text("'run/steps' is -1 (expected a count"));
  CHECK_THAT(with_int("run/is_on", 2), contains_text("(expected 0 or 1)"));
  CHECK_THAT(with_int("run/computed", int64_t{1} << 40), contains_text("run/computed"));
  CHECK_THAT(with_int("run/elements/0/count", -3), contains_text("run/elements/0/count"));
  CHECK(with_int("run/windows", -4).empty());
  for (const double seconds : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK_THAT(
        refused("run/seconds", [&](StateTree& tree) { tree.put_double("run/seconds", seconds); }),
        contains_text("a finite number of at least 0"));
  }
}

TEST_CASE("saved metrics in another form are refused, and never read without end", "[train]") {
  CHECK(metrics_of_text(metrics_text(Made().metrics)) == Made().metrics);
  CHECK(metrics_of_text("").empty());
  for (const std::string text : {"loss\n",
                                 "loss",
                                 "\n",
                                 " \n",
                                 "loss 0x1p+0",
                                 "loss 0x1p+0\nloss",
                                 "loss x\n",
                                 "loss \n",
                                 "loss 1 \n",
                                 " 0x1p+0\n"}) {
    INFO("'" << text << "'");
    try {
      metrics_of_text(text);
      FAIL_CHECK("was taken");
    } catch (const Error& error) {
      CHECK(error.id() == "state.bad_value");
    }
  }
}

}  // namespace tenon
