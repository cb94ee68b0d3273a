// SPDX-License-Identifier: Apache-2.0
#include "host/model/compile_generation.hpp"

#include "host/model/program_text.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/model/program_case.hpp"
#include "tests/host/model/program_lives.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Blocks upstream of a value, those that make ids of its rows included.
void add_upstream(const ModelGraph& graph, uint32_t v, std::set<uint32_t>& blocks) {
  const ModelValue& value = graph.values[v];
  if (value.lookup.has_value() && value.lookup->ids != kNoIndex) {
    add_upstream(graph, value.lookup->ids, blocks);
  }
  if (value.maker != kNoIndex && blocks.insert(value.maker).second) {
    for (const uint32_t input : graph.blocks[value.maker].inputs) {
      add_upstream(graph, input, blocks);
    }
  }
}

}  // namespace

TEST_CASE("generation runs what the logits need, and gathers where it is used", "[model]") {
  GraphOf made;
  const uint32_t ids = made.field("ids");
  const uint32_t hidden = made.value("hidden");
  const uint32_t other = made.value("other");
  const uint32_t logits = made.value("logits", true);
  const uint32_t embedding = made.parameter("embedding");
  made.block(block_of("attention", "", {ids}, {hidden}, {embedding}));
  made.block(block_of("classifier", "", {hidden}, {other}, {made.parameter("w")}));
  made.block(block_of("head", "", {hidden}, {logits}, {embedding}, TENON_BLOCK_TOKENWISE));
  const GraphFacts facts = facts_of(made.graph);
  std::vector<GroupFacts> groups;
  ProgramNames names{.graph = made.graph, .groups = {}};
  for (const GroupLayout& layout : lay_out_groups(made.graph, {})) {
    groups.push_back(facts_of(layout, sharing_of({.stage = 3}, 2)));
    names.groups.push_back(layout.name);
  }
  const Program program = compile_generation(
      facts,
      groups,
      {.logits = logits, .has_caches = {true, false, false}, .has_many_ranks = true});
  CHECK(find_problem(program, facts, groups).empty());
  CHECK(text_of(program, names) == R"(-- forward
gather   attention  embedding
await    attention  embedding
forward  attention
drop     attention             tape; ids
forward  head                  last position
drop     head                  tape; hidden
free     head       embedding
)");
}

TEST_CASE("generation on random graphs reads what exists, and no other block runs", "[model]") {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    ProgramCase of = random_case(seed);
    of.options.kept = std::nullopt;
    const GraphFacts facts = facts_of(of.graph);
    const uint32_t logits = of.graph.blocks.back().outputs.front();
    const Program program = compile_generation(
        facts, of.groups, {.logits = logits, .has_many_ranks = of.options.has_many_ranks});
    REQUIRE(find_problem(program, facts, of.groups).empty());
    REQUIRE(ProgramLives(program, of).problem().empty());
    std::set<uint32_t> ran;
    for (const Instruction& instruction : program.section(Section::kForward)) {
      if (instruction.op == Op::kForward) {
        ran.insert(instruction.block);
      }
    }
    std::set<uint32_t> needed;
    add_upstream(of.graph, logits, needed);
    REQUIRE(ran == needed);
  }
}

}  // namespace tenon
