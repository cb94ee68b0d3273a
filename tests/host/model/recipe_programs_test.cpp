// SPDX-License-Identifier: Apache-2.0
//
// Programs of graphs like those of four recipes, with fewer layers, against the lists in golden/.
#include "host/model/compile_program.hpp"
#include "host/model/program_text.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/model/program_case.hpp"
#include "tests/host/model/program_lives.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

struct DecoderShape {
  std::string prefix = {};
  uint32_t model = 0;
  bool is_tied = false;    // the head reads the embedding
  bool is_frozen = false;  // all parameters, without adapters
  bool has_adapters = false;
  std::vector<uint32_t> of_attention = {};  // values that attention reads besides
  std::vector<uint32_t> of_head = {};       // values that the head reads besides
  std::string head;                         // name of the last block
  std::string output;                       // name of its value
};

constexpr int kNumLayers = 3;

// An embedding, layers of attention and feed-forward blocks, and a head. Returns the value that the
// head makes.
uint32_t add_decoder(GraphOf& made, uint32_t ids, const DecoderShape& shape) {
  const auto named = [&shape](const std::string& name) { return shape.prefix + name; };
  const bool is_base_frozen = shape.is_frozen || shape.has_adapters;
  const auto add = [&](ModelBlock block) {
    block.model = shape.model;
    made.block(std::move(block));
  };
  const auto parameters_of = [&](const std::string& name) {
    std::vector<uint32_t> parameters = {made.parameter(named(name), is_base_frozen)};
    if (shape.has_adapters) {
      parameters.push_back(made.parameter(named(name + ".adapter")));
    }
    return parameters;
  };
  const uint32_t embedding = made.parameter(named("embedding"), is_base_frozen);
  uint32_t hidden = made.value(named("hidden.0"));
  add(block_of(named("embed"), "", {ids}, {hidden}, {embedding}));
  for (int i = 0; i < kNumLayers; ++i) {
    const std::string layer = "layers." + std::to_string(i);
    const uint32_t attended = made.value(named("attended." + std::to_string(i)));
    const uint32_t next = made.value(named("hidden." + std::to_string(i + 1)));
    std::vector<uint32_t> inputs = {hidden};
    inputs.insert(inputs.end(), shape.of_attention.begin(), shape.of_attention.end());
    const std::string attention = layer + ".attention";
    add(block_of(named(attention), named(layer), inputs, {attended}, parameters_of(attention)));
    const std::string last = layer + ".feed_forward";
    add(block_of(
        named(last), named(layer), {attended}, {next}, parameters_of(last), TENON_BLOCK_TOKENWISE));
    hidden = next;
  }
  std::vector<uint32_t> inputs = {hidden};
  inputs.insert(inputs.end(), shape.of_head.begin(), shape.of_head.end());
  std::vector<uint32_t> parameters = {made.parameter(named("norm"), is_base_frozen)};
  if (shape.is_tied) {
    parameters.push_back(embedding);
  }
  const uint32_t output = made.value(named(shape.output), true);
  add(block_of(named(shape.head), "", inputs, {output}, parameters, TENON_BLOCK_TOKENWISE));
  return output;
}

// Compares the program of a training pass with golden/NAME.txt.
void check_golden(const std::string& name, GraphOf made, ProgramOptions options, int64_t shard) {
  ProgramCase of{.graph = std::move(made.graph), .groups = {}, .options = std::move(options)};
  ProgramNames names{.graph = of.graph, .groups = {}};
  for (const GroupLayout& layout : lay_out_groups(of.graph, {})) {
    of.groups.push_back(facts_of(layout, sharing_of({.stage = 3}, shard)));
    names.groups.push_back(layout.name);
  }
  of.options.has_many_ranks = shard > 1;
  const GraphFacts facts = facts_of(of.graph);
  const Program program = compile_program(PassKind::kTrain, facts, of.groups, of.options);
  CHECK(find_problem(program, facts, of.groups).empty());
  CHECK(ProgramLives(program, of).problem().empty());
  std::ostringstream golden;
  golden << std::ifstream(source_dir() / "tests/host/model/golden" / (name + ".txt")).rdbuf();
  CHECK(text_of(program, names) == golden.str());
}

}  // namespace

TEST_CASE("the program of a small language model on one rank", "[model]") {
  GraphOf made;
  const uint32_t ids = made.field("input_ids");
  const uint32_t logits = add_decoder(made, ids, {.head = "head", .output = "logits"});
  check_golden("quickstart", std::move(made), {.kept = {{logits}}}, 1);
}

TEST_CASE("the program of a model with tables on two ranks", "[model]") {
  GraphOf made;
  const uint32_t dense = made.field("dense");
  const uint32_t bottom = made.value("bottom");
  std::vector<uint32_t> inputs = {bottom};
  for (int column = 0; column < 26; ++column) {
    inputs.push_back(made.rows("embedding.c" + std::to_string(column)));
  }
  const uint32_t features = made.value("features");
  const uint32_t logits = made.value("logits", true);
  made.block(block_of("bottom", "", {dense}, {bottom}, {made.parameter("bottom")}));
  made.block(block_of("interaction", "", inputs, {features}, {}));
  made.block(block_of("top", "", {features}, {logits}, {made.parameter("top")}));
  check_golden("dlrm", std::move(made), {.kept = {{logits}}}, 2);
}

TEST_CASE("the program of adapters with selective recompute, tiles and chunks", "[model]") {
  GraphOf made;
  const uint32_t ids = made.field("input_ids");
  const uint32_t segments = made.field("segment_ids");
  const uint32_t positions = made.field("position_ids");
  const uint32_t logits = add_decoder(made,
                                      ids,
                                      {.is_tied = true,
                                       .has_adapters = true,
                                       .of_attention = {segments, positions},
                                       .head = "head",
                                       .output = "logits"});
  const std::vector<bool> all(made.graph.blocks.size(), true);
  check_golden("lora",
               std::move(made),
               {.recomputed = all,
                .keeps_attention = true,
                .tiles = true,
                .chunks = true,
                .kept = {{logits}}},
               1);
}

TEST_CASE("the program of a model with a frozen reference, sharded over two ranks", "[model]") {
  GraphOf made;
  const uint32_t ids = made.field("input_ids");
  const uint32_t labels = made.field("labels");
  const uint32_t segments = made.field("segment_ids");
  const uint32_t positions = made.field("position_ids");
  DecoderShape shape{.prefix = "reference/",
                     .model = 1,
                     .is_tied = true,
                     .is_frozen = true,
                     .of_attention = {segments, positions},
                     .of_head = {labels},
                     .head = "head_logps",
                     .output = "token_logps"};
  const uint32_t reference = add_decoder(made, ids, shape);
  shape.prefix = "";
  shape.model = 0;
  shape.is_frozen = false;
  const uint32_t trained = add_decoder(made, ids, shape);
  check_golden("dpo", std::move(made), {.kept = {{reference, trained}}}, 2);
}

}  // namespace tenon
