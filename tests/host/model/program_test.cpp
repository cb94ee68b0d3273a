// SPDX-License-Identifier: Apache-2.0
//
// The check of programs: what it says of a program that lacks an instruction.
#include "host/model/program.hpp"

#include "host/model/program_text.hpp"
#include "host/model/stages.hpp"

#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/model/program_case.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// A chain x -> a -> b -> c -> y on two ranks of stage 3, of which a and b are one recomputed unit
// that reads rows, and whose input moves away.
ProgramCase chain_with_everything() {
  GraphOf made;
  const uint32_t x = made.field("x");
  const uint32_t rows = made.rows("rows");
  const uint32_t start = made.value("start");
  const uint32_t inside = made.value("inside");
  const uint32_t behind = made.value("behind");
  const uint32_t y = made.value("y", true);
  made.block(block_of("first", "", {x}, {start}, {made.parameter("w")}));
  made.block(block_of("a", "u", {start, rows}, {inside}, {made.parameter("wa")}));
  made.block(block_of("b", "u", {inside}, {behind}, {made.parameter("wb")}));
  made.block(block_of("c", "", {behind}, {y}, {made.parameter("wc")}));
  ProgramCase of{.graph = std::move(made.graph), .groups = {}, .options = {}};
  for (const GroupLayout& layout : lay_out_groups(of.graph, {})) {
    of.groups.push_back(facts_of(layout, sharing_of({.stage = 3}, 2)));
  }
  of.options = {.recomputed = {false, true, true, false},
                .moves_activations = true,
                .kept = {{y}},
                .has_many_ranks = true};
  return of;
}

// x -> first -> second -> y, in two stages on two ranks.
ProgramCase two_stages() {
  GraphOf made;
  const uint32_t x = made.field("x");
  const uint32_t between = made.value("between");
  const uint32_t y = made.value("y", true);
  made.block(block_of("first", "", {x}, {between}, {made.parameter("w")}));
  made.block(block_of("second", "", {between}, {y}, {made.parameter("v")}));
  made.graph.blocks[1].stage = 1;
  cut_stages(made.graph, std::vector<uint32_t>{0, 1}, {.index = 0, .count = 2});
  return {.graph = std::move(made.graph), .groups = {}, .options = {.kept = {{y}}}};
}

// Returns the program without its number `skipped` of the instructions `op`.
Program without(const Program& program, Op op, size_t skipped) {
  std::array<std::vector<Program::Draft>, kNumSections> sections;
  std::vector<Instruction> again;
  for (size_t s = 0; s < kNumSections; ++s) {
    for (const Instruction& instruction : program.section(static_cast<Section>(s))) {
      if (instruction.op == Op::kRecompute && again.empty()) {  // all others repeat a part of it
        again.assign(program.again(instruction).begin(), program.again(instruction).end());
      }
      const auto values = program.values(instruction);
      if (instruction.op != op || skipped-- != 0) {
        sections[s].push_back({instruction, {values.begin(), values.end()}});
      }
    }
  }
  return Program(program.kind(), program.stage(), program.has_chunks(), sections, std::move(again));
}

}  // namespace

TEST_CASE("a program without one of its instructions is found out", "[model]") {
  const ProgramCase of = chain_with_everything();
  const GraphFacts facts = facts_of(of.graph);
  const Program program = compile_program(PassKind::kTrain, facts, of.groups, of.options);
  REQUIRE(find_problem(program, facts, of.groups).empty());
  const auto problem = [&](Op op, size_t number) {
    return find_problem(without(program, op, number), facts, of.groups);
  };
  CHECK(problem(Op::kGather, 0) ==
        "'forward' of block 'first': the parameters of group 0 are not whole");
  CHECK(problem(Op::kAwait, 0) ==
        "'forward' of block 'first': the parameters of group 0 are not whole");
  CHECK(problem(Op::kFree, 0) == "'gather' of block 'first': the group is whole already");
  CHECK(problem(Op::kRows, 0) == "'forward' of block 'a': value 'rows' does not exist");
  CHECK(problem(Op::kForward, 0) == "'keep' of block 'first': the block has no tape");
  CHECK(problem(Op::kForward, 3) == "'keep' of block 'c': the block has no tape");
  CHECK(problem(Op::kMoveAway, 0) ==
        "'bring back' of block 'b': it is not what was moved away last");
  CHECK(problem(Op::kBringBack, 0) == "'recompute' of block 'b': value 'start' does not exist");
  CHECK(problem(Op::kRecompute, 0) == "'backward' of block 'b': an input is not on the tape");
  CHECK(problem(Op::kBackward, 0) ==
        "'add gradients' of block 'c': the backward of the block has returned no gradients");
}

TEST_CASE("a stage without one of its messages is found out", "[model]") {
  ProgramCase of = two_stages();
  const GraphFacts facts = facts_of(of.graph);
  const auto problem = [&](uint32_t stage, Op op) {
    of.options.stage = stage;
    const Program program = compile_program(PassKind::kTrain, facts, of.groups, of.options);
    REQUIRE(find_problem(program, facts, of.groups).empty());
    return find_problem(without(program, op, 0), facts, of.groups);
  };
  CHECK(problem(0, Op::kForward) == "'keep' of block 'first': the block has no tape");
  CHECK(
      problem(0, Op::kReceiveGradients) ==
      "'backward' of block 'first': the gradient of value 'between' from stage 1 has not arrived");
  CHECK(problem(1, Op::kReceive) == "'forward' of block 'second': value 'between' does not exist");
}

TEST_CASE("a program on which nothing is missing reads as a list", "[model]") {
  const ProgramCase of = chain_with_everything();
  const GraphFacts facts = facts_of(of.graph);
  const Program program = compile_program(PassKind::kTrain, facts, of.groups, of.options);
  const ProgramNames names{.graph = of.graph, .groups = {"first", "u", "c"}};
  const Instruction& recompute =
      *std::ranges::find(program.section(Section::kBackward), Op::kRecompute, &Instruction::op);
  const ProgramRow row = row_of(program, recompute, names);
  CHECK(row.op == "recompute");
  CHECK(row.block == "b");
  CHECK(row.group.empty());
  CHECK(row.details == "forward of a b; if asked");
  std::set<std::string> names_of_ops;
  for (size_t op = 0; op < kNumOps; ++op) {
    names_of_ops.insert(name_of(static_cast<Op>(op)));
  }
  CHECK(names_of_ops.size() == kNumOps);
  CHECK(is_collective(Op::kRowGradients));
  CHECK_FALSE(is_collective(Op::kForward));
  CHECK_FALSE(is_collective(Op::kReceive));
}

}  // namespace tenon
