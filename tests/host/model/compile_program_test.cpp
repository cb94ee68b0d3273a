// SPDX-License-Identifier: Apache-2.0
//
// Programs of small graphs as lists written by hand, and of random graphs by an independent check.
#include "host/model/compile_program.hpp"

#include "host/model/program_text.hpp"

#include <string>
#include <utility>
#include <vector>

#include "tests/host/model/program_case.hpp"
#include "tests/host/model/program_lives.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Lists without the spaces that align columns.
std::string list_of(PassKind kind, const ProgramCase& of) {
  const GraphFacts facts = facts_of(of.graph);
  const Program program = compile_program(kind, facts, of.groups, of.options);
  CHECK(find_problem(program, facts, of.groups).empty());
  ProgramNames names{.graph = of.graph, .groups = {}};
  for (size_t g = 0; g < of.groups.size(); ++g) {
    names.groups.push_back("g" + std::to_string(g));
  }
  std::string list;
  for (const char c : text_of(program, names)) {
    if (c != ' ' || (!list.empty() && list.back() != ' ')) {
      list += c;
    }
  }
  return "\n" + list;
}

// Groups of a graph on ranks of stage 3; `num_slices` 1 keeps everything.
std::vector<GroupFacts> groups_of(const ModelGraph& graph, int64_t num_slices, int stage = 3) {
  std::vector<GroupFacts> groups;
  for (const GroupLayout& layout : lay_out_groups(graph, {})) {
    groups.push_back(tenon::facts_of(layout, sharing_of({.stage = stage}, num_slices)));
  }
  return groups;
}

ProgramCase case_of(GraphOf made, int64_t num_slices, ProgramOptions options, int stage = 3) {
  ProgramCase result{.graph = std::move(made.graph), .groups = {}, .options = std::move(options)};
  result.groups = groups_of(result.graph, num_slices, stage);
  result.options.has_many_ranks = num_slices > 1;
  result.options.kept = {{result.graph.blocks.back().outputs.back()}};
  return result;
}

// x -> a -> h -> b -> y, each block with a parameter.
GraphOf chain_of(const std::vector<std::string>& blocks,
                 const std::string& unit = "",
                 uint32_t flags = 0) {
  GraphOf made;
  uint32_t last = made.field("x");
  for (size_t b = 0; b < blocks.size(); ++b) {
    const bool is_end = b + 1 == blocks.size();
    const uint32_t next = made.value(is_end ? "y" : "h" + std::to_string(b), is_end);
    made.block(block_of(blocks[b], unit, {last}, {next}, {made.parameter("p" + blocks[b])}, flags));
    last = next;
  }
  return made;
}

}  // namespace

TEST_CASE("one rank that keeps everything gathers nothing", "[model]") {
  CHECK(list_of(PassKind::kTrain, case_of(chain_of({"a", "b"}), 1, {})) == R"(
-- forward
forward a records
keep a graph
forward b records
keep b graph
-- losses
loss
-- backward
loss backward
backward b if asked
add gradients b if asked; h0
drop b tape
drop b y
backward a if asked
add gradients a if asked
drop a tape
drop a h0
)");
}

TEST_CASE("an evaluation drops each value behind its last reader", "[model]") {
  CHECK(list_of(PassKind::kEvaluate, case_of(chain_of({"a", "b", "c"}), 1, {})) == R"(
-- forward
forward a
drop a tape
forward b
drop b tape
drop b h0
forward c
drop c tape
drop c h1
-- losses
loss
)");
}

TEST_CASE("a unit is gathered while the one before it computes, and reduced behind its backward",
          "[model]") {
  CHECK(list_of(PassKind::kTrain, case_of(chain_of({"a", "b"}), 2, {})) == R"(
-- forward
gather a g0
gather b g1
await a g0
forward a records
free a g0
keep a graph
await b g1
forward b records
keep b graph
-- losses
loss
-- backward
loss backward
gather a g0
await b g1
backward b if asked
add gradients b if asked; h0
drop b tape
free b g1
reduce b g1
drop b y
await a g0
backward a if asked
add gradients a if asked
drop a tape
free a g0
reduce a g0
drop a h0
)");
}

TEST_CASE("stage 1 awaits what an update gathers, and reduces in the last microbatch", "[model]") {
  CHECK(list_of(PassKind::kTrain, case_of(chain_of({"a"}), 2, {}, 1)) == R"(
-- forward
await a g0
forward a records
keep a graph
-- losses
loss
-- backward
loss backward
await a g0
backward a if asked
add gradients a if asked
drop a tape
reduce a g0 in the last microbatch
drop a y
)");
}

TEST_CASE("a rank that frees gradients updates each group in backward", "[model]") {
  ProgramCase of = case_of(chain_of({"a"}), 1, {});
  of.groups[0].frees_gradients = true;
  of.groups[0].keeps_gradients = false;
  CHECK(list_of(PassKind::kTrain, of) == R"(
-- forward
forward a records
keep a graph
-- losses
loss
-- backward
loss backward
backward a if asked
add gradients a if asked
drop a tape
update a g0 in the last microbatch
drop a y
)");
}

TEST_CASE("a recomputed unit drops what only its blocks read", "[model]") {
  const ProgramCase of = case_of(chain_of({"a", "b"}, "u"), 1, {.recomputed = {true, true}});
  CHECK(list_of(PassKind::kTrain, of) == R"(
-- forward
forward a
keep a inputs
forward b
keep b inputs
drop b also in tapes; h0
-- losses
loss
-- backward
loss backward
recompute b forward of a b; if asked
backward b if asked
add gradients b if asked; h0
drop b tape
drop b y
recompute a forward of a; if asked
backward a if asked
add gradients a if asked
drop a tape
drop a h0
)");
}

TEST_CASE("a recompute repeats the frozen blocks of its unit", "[model]") {
  GraphOf made;
  const uint32_t x = made.field("x");
  const uint32_t h = made.value("h");
  const uint32_t y = made.value("y", true);
  made.block(block_of("frozen", "u", {x}, {h}, {made.parameter("base", true)}));
  made.block(block_of("trained", "u", {h}, {y}, {made.parameter("adapter")}));
  ProgramOptions options{.recomputed = {true, true}, .keeps_attention = true};
  CHECK(list_of(PassKind::kTrain, case_of(std::move(made), 1, options)) == R"(
-- forward
forward frozen attention
keep frozen inputs; attention
forward trained attention
keep trained inputs; attention
drop trained also in tapes; h
-- losses
loss
-- backward
loss backward
recompute trained forward of frozen trained; if asked
backward trained if asked
add gradients trained if asked
drop trained tape
drop trained y
drop frozen tape
drop frozen h
)");
}

TEST_CASE("a tiled block makes its tiles in backward, and its outputs only for others", "[model]") {
  const ProgramCase of = case_of(chain_of({"a", "b"}, "u", TENON_BLOCK_TOKENWISE),
                                 1,
                                 {.recomputed = {true, true}, .tiles = true});
  CHECK(list_of(PassKind::kTrain, of) == R"(
-- forward
forward a tiles
keep a inputs
forward b tiles
keep b inputs
drop b also in tapes; h0
-- losses
loss
-- backward
loss backward
recompute b forward of a (tiles); if asked
backward b tiles; if asked
add gradients b if asked; h0
drop b tape
drop b y
recompute a forward of a (tiles); if asked
backward a tiles; if asked
add gradients a if asked
drop a tape
drop a h0
)");
}

TEST_CASE("the tail and the losses run in chunks, and its gradients come in pieces", "[model]") {
  const ProgramCase of =
      case_of(chain_of({"a", "head"}, "", TENON_BLOCK_TOKENWISE), 2, {.chunks = true});
  CHECK(list_of(PassKind::kTrain, of) == R"(
-- forward
gather a g0
gather head g1
await a g0
forward a records
free a g0
keep a graph
-- losses
await head g1 in the first chunk
forward head records; chunk
keep head graph
loss chunk
loss backward
backward head chunk; if asked
drop head tape
put pieces head h0
add gradients head in the last chunk; h0
drop y
-- backward
gather a g0
await head g1
free head g1
reduce head g1
await a g0
backward a if asked
add gradients a if asked
drop a tape
free a g0
reduce a g0
drop a h0
)");
}

TEST_CASE("chunks of a tied head wait for what reduces its gradients", "[model]") {
  GraphOf made;
  const uint32_t x = made.field("x");
  const uint32_t h = made.value("h");
  const uint32_t y = made.value("y", true);
  const uint32_t embedding = made.parameter("embedding");
  made.block(block_of("embed", "", {x}, {h}, {embedding}, TENON_BLOCK_TOKENWISE));
  made.block(block_of("head", "", {h}, {y}, {embedding}, TENON_BLOCK_TOKENWISE));
  const ProgramCase of = case_of(std::move(made), 2, {.chunks = true});
  const GraphFacts facts = facts_of(of.graph);
  const Program program = compile_program(PassKind::kTrain, facts, of.groups, of.options);
  const auto losses = program.section(Section::kLosses);
  const Instruction& first = losses.front();
  CHECK(first.op == Op::kAwait);
  CHECK(first.block == 1);
  CHECK(first.group == 0);
  CHECK(first.has(kSettlesGradients));
  CHECK(first.when == When::kInFirstChunk);
}

TEST_CASE("table rows are trained, and their gradients go back behind their first reader",
          "[model]") {
  GraphOf made;
  const uint32_t x = made.field("x");
  const uint32_t ids = made.value("ids");
  const uint32_t rows = made.rows("rows", ids);
  const uint32_t y = made.value("y", true);
  made.block(block_of("hash", "", {x}, {ids}, {}));
  made.block(block_of("sum", "", {rows}, {y}, {}));
  CHECK(list_of(PassKind::kTrain, case_of(std::move(made), 1, {})) == R"(
-- forward
lookup
forward hash
drop hash tape
rows sum rows
forward sum records
keep sum graph
-- losses
loss
-- backward
loss backward
backward sum if asked
add gradients sum if asked; rows
drop sum tape
row gradients sum rows
drop sum y
drop hash ids
)");
}

TEST_CASE("what recomputed units read moves away, and comes back before their backward",
          "[model]") {
  const ProgramCase of = case_of(
      chain_of({"a", "b", "c"}), 1, {.recomputed = {true, true, true}, .moves_activations = true});
  CHECK(list_of(PassKind::kTrain, of) == R"(
-- forward
forward a
keep a inputs
forward b
keep b inputs
move away b h0
forward c
keep c inputs
-- losses
loss
-- backward
loss backward
recompute c forward of c; if asked
backward c if asked
add gradients c if asked; h1
drop c tape
drop c y
bring back b h0
recompute b forward of b; if asked
backward b if asked
add gradients b if asked; h0
drop b tape
drop b h0
drop b h1
recompute a forward of a; if asked
backward a if asked
add gradients a if asked
drop a tape
drop a h0
)");
}

TEST_CASE("a replay shows each block with its values and parameters", "[model]") {
  CHECK(list_of(PassKind::kReplay, case_of(chain_of({"a", "b"}), 2, {})) == R"(
-- forward
gather a g0
gather b g1
await a g0
forward a again
seen a
drop a tape
free a g0
await b g1
forward b again
seen b
drop b tape
free b g1
)");
}

TEST_CASE("programs of random graphs keep what they read, and free it", "[model]") {
  size_t num_instructions = 0;
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    const ProgramCase of = random_case(seed);
    const GraphFacts facts = facts_of(of.graph);
    for (const PassKind kind : {PassKind::kTrain, PassKind::kEvaluate, PassKind::kReplay}) {
      const Program program = compile_program(kind, facts, of.groups, of.options);
      const std::string problem = find_problem(program, facts, of.groups);
      const std::string missed = ProgramLives(program, of).problem();
      if (!problem.empty() || !missed.empty()) {
        ProgramNames names{.graph = of.graph, .groups = std::vector<std::string>(of.groups.size())};
        INFO(text_of(program, names));
        FAIL("seed " << seed << ", pass " << static_cast<int>(kind) << ": " << problem << " | "
                     << missed);
      }
      num_instructions += program.section(Section::kForward).size();
    }
  }
  CHECK(num_instructions > 5000 * 3);
}

}  // namespace tenon
