// SPDX-License-Identifier: Apache-2.0
#include "host/model/stages.hpp"

#include "host/error/error.hpp"
#include "host/model/program_text.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/model/program_case.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Stages = std::vector<uint32_t>;

// A chain of blocks with one product each, of `costs` elements; 0: a norm.
class Chain {
 public:
  explicit Chain(const std::vector<int64_t>& costs, uint32_t model = 0) { add(costs, model); }

  void add(const std::vector<int64_t>& costs, uint32_t model) {
    uint32_t last = made.field("x" + std::to_string(model));
    for (size_t i = 0; i < costs.size(); ++i) {
      const std::string name = (model == 0 ? "b" : "m/b") + std::to_string(i);
      const uint32_t before = made.value("in." + name);
      if (i == 0) {  // so that the first block reads more than fields
        made.block(with_model(block_of("f." + name, name, {last}, {before}, {}), model));
        last = before;
      }
      const uint32_t p = made.parameter("w." + name);
      made.graph.parameters[p].shape =
          costs[i] > 0 ? std::vector<int64_t>{costs[i], 1} : std::vector<int64_t>{7};
      made.graph.parameters[p].model = model;
      const uint32_t next = made.value("out." + name);
      made.block(with_model(block_of(name, name, {last}, {next}, {p}), model));
      last = next;
    }
  }

  GraphOf made;

 private:
  static ModelBlock with_model(ModelBlock block, uint32_t model) {
    block.model = model;
    return block;
  }
};

// The stage of each unit.
Stages stages_of_units(const ModelGraph& graph, uint32_t model = 0) {
  Stages stages;
  for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
    if (graph.blocks[b].model == model && graph.unit_of(b).first == b) {
      stages.push_back(graph.blocks[b].stage);
    }
  }
  return stages;
}

// Tries all cuts: of those with the smallest largest cost, the one whose earlier stages have fewer
// units.
Stages best_by_trying(const std::vector<int64_t>& costs, uint32_t num_stages) {
  Stages best;
  int64_t least = INT64_MAX;
  Stages stages(costs.size(), 0);
  const std::function<void(size_t)> try_from = [&](size_t unit) {
    if (unit == costs.size()) {
      std::vector<int64_t> sums(num_stages, 0);
      for (size_t u = 0; u < costs.size(); ++u) {
        sums[stages[u]] += costs[u];
      }
      const int64_t most = *std::ranges::max_element(sums);
      // Stages that begin earlier give larger lists.
      if (stages.back() + 1 == num_stages && (most < least || (most == least && stages > best))) {
        least = most;
        best = stages;
      }
      return;
    }
    for (uint32_t stage = stages[unit - 1]; stage < std::min(stages[unit - 1] + 2, num_stages);
         ++stage) {
      stages[unit] = stage;
      try_from(unit + 1);
    }
  };
  try_from(1);
  return best;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the most expensive stage is as cheap as in any cut", "[model]") {
  Draw draw(1);
  for (int i = 0; i < 500; ++i) {
    std::vector<int64_t> costs(draw.number(1, 9));
    for (int64_t& cost : costs) {
      cost = draw.number(0, 5);
    }
    const uint32_t num_stages = draw.number(1, static_cast<uint32_t>(costs.size()));
    Chain chain(costs);
    assign_stages(chain.made.graph, num_stages);
    CHECK(stages_of_units(chain.made.graph) == best_by_trying(costs, num_stages));
  }
}

TEST_CASE("blocks that look rows up cost nothing", "[model]") {
  GraphOf made;
  const uint32_t ids = made.field("ids");
  const uint32_t x = made.value("x");
  const uint32_t y = made.value("y");
  const uint32_t z = made.value("z");
  const auto matrix = [&made](const std::string& name, int64_t rows) {
    const uint32_t p = made.parameter(name);
    made.graph.parameters[p].shape = {rows, 4};
    return p;
  };
  made.block(block_of("embed", "", {ids}, {x}, {matrix("table", 1000)}));
  made.block(block_of("a", "", {x}, {y}, {matrix("wa", 4)}));
  made.block(block_of("b", "", {y}, {z}, {matrix("wb", 4)}));
  assign_stages(made.graph, 2);
  CHECK(stages_of_units(made.graph) == Stages{0, 0, 1});
}

TEST_CASE("further models are cut alone, and end in the last stage", "[model]") {
  Chain chain({1, 1, 1, 1}, 1);
  chain.add({3, 1, 1, 1}, 0);
  assign_stages(chain.made.graph, 2);
  CHECK(stages_of_units(chain.made.graph, 1) == Stages{0, 0, 1, 1});
  CHECK(stages_of_units(chain.made.graph, 0) == Stages{0, 1, 1, 1});
  Chain small({1, 1}, 1);
  small.add({1, 1, 1, 1}, 0);
  assign_stages(small.made.graph, 4);
  CHECK(stages_of_units(small.made.graph, 1) == Stages{2, 3});
  CHECK(stages_of_units(small.made.graph, 0) == Stages{0, 1, 2, 3});
}

TEST_CASE("a model that shares parameters has the cut of the trained model", "[model]") {
  Chain chain({1, 1, 1, 1}, 1);
  chain.add({9, 1, 1, 1}, 0);
  ModelGraph& graph = chain.made.graph;
  for (ModelBlock& block : graph.blocks) {
    if (block.model == 1 && !block.parameters.empty()) {
      block.parameters[0] += 4;  // that of the trained model
    }
  }
  assign_stages(graph, 3, {.patterns = {"b2", "b3"}});
  CHECK(stages_of_units(graph, 0) == Stages{0, 0, 1, 2});
  CHECK(stages_of_units(graph, 1) == Stages{0, 0, 1, 2});
}

TEST_CASE("patterns begin stages", "[model]") {
  const auto with = [](uint32_t num_stages, std::vector<std::string> patterns) {
    Chain chain({1, 1, 1, 1});
    assign_stages(chain.made.graph, num_stages, {.patterns = std::move(patterns)});
    return stages_of_units(chain.made.graph);
  };
  CHECK(with(3, {"b[12]", "b3"}) == Stages{0, 1, 1, 2});
  CHECK(error_of([&] { with(3, {"b1"}); }) ==
        "[model.bad_stages] /parallel/stage_starts has 1 patterns, but 3 stages need 2");
  CHECK(error_of([&] { with(2, {"layer.*"}); }) ==
        "[model.bad_stages] /parallel/stage_starts/0: 'layer.*' matches no block of the model; its "
        "blocks are 'f.b0' to 'b3'");
  CHECK(
      error_of([&] {
        with(3, {"b2", "b1"});
      }) ==
      "[model.bad_stages] /parallel/stage_starts/1: 'b1' matches unit 'b1', and stage 1 begins at "
      "unit 'b2'; list the patterns in the order of the blocks");
  CHECK(
      error_of([&] { with(2, {"*b0"}); }) ==
      "[model.bad_stages] /parallel/stage_starts/0: '*b0' matches unit 'b0', and stage 0 begins at "
      "unit 'b0'; list the patterns in the order of the blocks");
}

TEST_CASE("what stages cannot share is refused", "[model]") {
  Chain few({1, 1});
  CHECK(error_of([&] { assign_stages(few.made.graph, 3); }) ==
        "[model.too_few_units] the model has 2 units, and 3 stages need a unit each; set "
        "/parallel/pipeline and /parallel/stages_per_rank so that there are at most 2 stages");
  Chain state({1, 1});
  state.made.graph.buffers.push_back({.name = "seen", .shape = {1}, .kind = TENON_BUFFER_STATE});
  state.made.graph.blocks[1].buffers = {0};
  state.made.graph.blocks[2].buffers = {0};
  CHECK(error_of([&] { assign_stages(state.made.graph, 2); }) ==
        "[model.bad_stages] state buffer 'seen' is used by block 'b0' (stage 0) and by block 'b1' "
        "(stage 1); choose /parallel/stage_starts so that one stage has both blocks");
  Chain backwards({1, 1}, 1);
  backwards.add({1, 1}, 0);
  const uint32_t late = backwards.made.graph.blocks[2].outputs[0];  // of the further model
  backwards.made.graph.blocks[4].inputs.push_back(late);
  CHECK(error_of([&] { assign_stages(backwards.made.graph, 2); }) ==
        "[model.bad_stages] block 'b0' (stage 0) reads value 'out.m/b1' of block 'm/b1' (stage 1), "
        "and a stage reads no value of a later one; use fewer stages");
}

TEST_CASE("each rank knows what the others have", "[model]") {
  Chain chain({1, 1, 1});
  ModelGraph& graph = chain.made.graph;
  const uint32_t unused = chain.made.parameter("unused");
  const uint32_t tied = chain.made.tied("tied", 1);
  graph.blocks[2].parameters.push_back(tied);
  graph.buffers.push_back({.name = "seen", .shape = {1}});
  graph.buffers.push_back({.name = "spare", .shape = {1}});
  graph.blocks[3].buffers = {0};
  assign_stages(graph, 3);
  cut_stages(graph, Stages{1, 0, 1}, {.index = 0, .count = 2});
  CHECK(graph.stage_owners == Stages{1, 0, 1});
  const auto blocks_elsewhere = [&graph] {
    std::vector<bool> elsewhere;
    for (const ModelBlock& block : graph.blocks) {
      elsewhere.push_back(block.is_elsewhere);
    }
    return elsewhere;
  };
  CHECK(blocks_elsewhere() == std::vector<bool>{true, true, false, true});
  Stages owners;
  std::vector<bool> elsewhere;
  for (const ModelParameter& parameter : graph.parameters) {
    owners.push_back(parameter.holders.front());
    elsewhere.push_back(parameter.is_elsewhere);
  }
  CHECK(graph.parameters[unused].name == "unused");
  CHECK(owners == Stages{1, 0, 1, 1, 0});
  CHECK(elsewhere == std::vector<bool>{true, false, true, true, false});
  CHECK(graph.buffers[0].owner == 1);
  CHECK(graph.buffers[1].owner == 1);
  CHECK(stages_of(graph, 0) == Stages{1});
  CHECK(stages_of(graph, 1) == Stages{0, 2});
}

TEST_CASE("a stage is named by its units", "[model]") {
  Chain chain({1, 1, 1});
  assign_stages(chain.made.graph, 2);
  CHECK(units_text(chain.made.graph, 0) == "b0");
  CHECK(units_text(chain.made.graph, 1) == "b1 to b2");
}

namespace {

// "stage 1: 4 7;"
std::string text(const std::vector<StageTraffic::Lot>& lots) {
  std::string text;
  for (const StageTraffic::Lot& lot : lots) {
    text += (text.empty() ? "stage " : " stage ") + std::to_string(lot.stage) + ":";
    for (const uint32_t v : lot.values) {
      text += " " + std::to_string(v);
    }
    text += ";";
  }
  return text;
}

// Four stages of one block each: each reads the block before; c reads a too, and d reads a and b.
// Losses read a and d. Ranks have the stages 0 and 3, and 1 and 2.
ModelGraph four_stages() {
  GraphOf made;
  const uint32_t x = made.field("x");
  const uint32_t a = made.value("a", true);
  const uint32_t b = made.value("b");
  const uint32_t c = made.value("c");
  const uint32_t d = made.value("d", true);
  made.block(block_of("A", "", {x}, {a}, {made.parameter("wa")}));
  made.block(block_of("B", "", {a}, {b}, {made.parameter("wb")}));
  made.block(block_of("C", "", {a, b}, {c}, {made.parameter("wc")}));
  made.block(block_of("D", "", {c, a, b}, {d}, {made.parameter("wd")}));
  for (uint32_t block = 0; block < 4; ++block) {
    made.graph.blocks[block].stage = block;
  }
  cut_stages(made.graph, Stages{0, 1, 1, 0}, {.index = 0, .count = 2});
  return made.graph;
}

}  // namespace

TEST_CASE("values go to each later reader, and gradients from reader to reader", "[model]") {
  const ModelGraph graph = four_stages();
  const Stages read = {1, 4};
  const std::vector<ValueRoute> routes = value_routes(graph, read);
  REQUIRE(routes.size() == 3);
  CHECK((routes[0].value == 1 && routes[0].maker == 0 && routes[0].readers == Stages{1, 2, 3}));
  CHECK((routes[1].value == 2 && routes[1].maker == 1 && routes[1].readers == Stages{2, 3}));
  CHECK((routes[2].value == 3 && routes[2].maker == 2 && routes[2].readers == Stages{3}));
  const auto of = [&](uint32_t stage) {
    return traffic_of(graph, routes, stage, [](uint32_t v) { return v != 3; });
  };
  CHECK(text(of(0).receives) == "");
  CHECK(text(of(0).sends) == "stage 1: 1;");
  CHECK(text(of(0).receives_gradients) == "stage 1: 1;");
  CHECK(text(of(1).receives) == "stage 0: 1;");
  CHECK(text(of(1).sends) == "stage 3: 2;");
  CHECK(text(of(1).receives_gradients) == "");
  CHECK(text(of(1).sends_gradients) == "stage 0: 1;");
  CHECK(text(of(2).receives) == "");
  CHECK(text(of(2).sends) == "stage 3: 3;");
  CHECK(text(of(2).receives_gradients) == "stage 3: 1 2;");
  CHECK(text(of(2).sends_gradients) == "");
  CHECK(text(of(3).receives) == "stage 1: 2; stage 2: 3;");
  CHECK(text(of(3).sends_gradients) == "stage 2: 1 2;");
  CHECK(value_routes(graph, {}).size() == 3);
  CHECK(value_routes(ModelGraph(), {}).empty());
}

TEST_CASE("a stage keeps values for the later stages of its rank", "[model]") {
  const ModelGraph graph = four_stages();
  const GraphFacts facts = facts_of(graph);
  const auto program_text = [&](PassKind kind, uint32_t stage) {
    const Program program =
        compile_program(kind, facts, {}, {.kept = Stages{1, 4}, .stage = stage});
    CHECK(find_problem(program, facts, {}) == "");
    return text_of(program, {.graph = graph, .groups = {}}, nullptr);
  };
  CHECK(program_text(PassKind::kTrain, 0) ==
        "-- forward\n"
        "forward            A  records\n"
        "keep               A  graph\n"
        "send                  to stage 1; a\n"
        "-- backward\n"
        "receive gradients     from stage 1; a\n"
        "backward           A  if asked\n"
        "add gradients      A  if asked\n"
        "drop               A  tape\n"
        "drop               A  a\n");
  CHECK(program_text(PassKind::kTrain, 1) ==
        "-- forward\n"
        "receive            from stage 0; a\n"
        "forward         B  records\n"
        "keep            B  graph\n"
        "send               to stage 3; b\n"
        "-- backward\n"
        "backward        B  if asked\n"
        "add gradients   B  if asked; a\n"
        "drop            B  tape\n"
        "drop            B  b\n"
        "send gradients     to stage 0; a\n"
        "drop               a\n");
  CHECK(program_text(PassKind::kTrain, 2) ==
        "-- forward\n"
        "forward            C  records\n"
        "keep               C  graph\n"
        "send                  to stage 3; c\n"
        "-- backward\n"
        "receive gradients     from stage 3; a b c\n"
        "backward           C  if asked\n"
        "add gradients      C  if asked; b a\n"
        "drop               C  tape\n"
        "drop               C  c\n");
  CHECK(program_text(PassKind::kTrain, 3) ==
        "-- forward\n"
        "receive            from stage 1; b\n"
        "receive            from stage 2; c\n"
        "forward         D  records\n"
        "keep            D  graph\n"
        "-- losses\n"
        "loss\n"
        "-- backward\n"
        "loss backward\n"
        "backward        D  if asked\n"
        "add gradients   D  if asked; b a c\n"
        "drop            D  tape\n"
        "drop            D  d\n"
        "send gradients     to stage 2; a b c\n"
        "drop               b\n"
        "drop               c\n");
  CHECK(program_text(PassKind::kEvaluate, 0) ==
        "-- forward\n"
        "forward  A\n"
        "drop     A  tape\n"
        "send        to stage 1; a\n");
  CHECK(program_text(PassKind::kEvaluate, 1) ==
        "-- forward\n"
        "receive     from stage 0; a\n"
        "forward  B\n"
        "drop     B  tape\n"
        "send        to stage 3; b\n");
  CHECK(program_text(PassKind::kEvaluate, 2) ==
        "-- forward\n"
        "forward  C\n"
        "drop     C  tape\n"
        "drop     C  a b\n"
        "send        to stage 3; c\n"
        "drop        c\n");
  CHECK(program_text(PassKind::kEvaluate, 3) ==
        "-- forward\n"
        "receive     from stage 1; b\n"
        "receive     from stage 2; c\n"
        "forward  D\n"
        "drop     D  tape\n"
        "drop     D  b c\n"
        "-- losses\n"
        "loss\n");
}

}  // namespace tenon
