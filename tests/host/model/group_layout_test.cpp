// SPDX-License-Identifier: Apache-2.0
//
// Layouts that are counted against groups that are made.
#include "host/model/group_layout.hpp"

#include <tenon/model.h>

#include "host/model/parameter_store.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Blocks of parameters; the last block shares the first one's first parameter.
ModelGraph graph_of(const std::vector<std::vector<ModelParameter>>& blocks) {
  ModelGraph graph;
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    ModelBlock block;
    block.name = "block" + std::to_string(b);
    for (ModelParameter parameter : blocks[b]) {
      parameter.blocks = {b};
      block.parameters.push_back(static_cast<uint32_t>(graph.parameters.size()));
      graph.parameters.push_back(std::move(parameter));
    }
    graph.blocks.push_back(std::move(block));
  }
  return graph;
}

ModelParameter parameter(const std::string& name, std::vector<int64_t> shape, uint32_t flags = 0) {
  ModelParameter made;
  made.name = name;
  made.shape = std::move(shape);
  made.dtype = TENON_CLASS_PARAM;
  made.flags = flags;
  return made;
}

ModelGraph sample_graph() {
  ModelGraph graph = graph_of({{parameter("embed", {10, 7})},
                               {parameter("w", {5, 3}),
                                parameter("scale", {3}, TENON_PARAM_KEEP_FP32),
                                parameter("b", {5}),
                                parameter("v", {33}, TENON_PARAM_FROZEN)},
                               {parameter("head", {10, 7})}});
  graph.parameters.back().same_as = 0;
  return graph;
}

}  // namespace

TEST_CASE("groups that are laid out are those that a run makes", "[model]") {
  const ModelGraph graph = sample_graph();
  const auto partition_of = [](uint32_t p) { return p == 1 ? 1U : 0U; };
  for (const auto& [stored, seen] : {std::pair(at::kFloat, at::kFloat),
                                     std::pair(at::kFloat, at::kBFloat16),
                                     std::pair(at::kBFloat16, at::kBFloat16),
                                     std::pair(at::kDouble, at::kDouble)}) {
    CAPTURE(stored, seen);
    const auto layouts =
        lay_out_groups(graph, {.stored = stored, .seen = seen, .partition_of = partition_of});
    ParameterLayout rules;
    rules.dtype = stored;
    rules.seen_dtype = seen;
    rules.partition_of = partition_of;
    const ParameterStore store(graph, rules);

    // By the parameters in a group, in their order, and its dtype.
    std::map<std::vector<uint32_t>, std::pair<at::ScalarType, int64_t>> laid_out;
    std::map<std::vector<uint32_t>, std::pair<at::ScalarType, int64_t>> made;
    for (const GroupLayout& layout : layouts) {
      laid_out[layout.parameters] = {layout.stored, layout.flat_numel(1)};
    }
    for (const FlatGroup& group : store.groups()) {
      std::vector<uint32_t> ids;
      for (const FlatEntry& entry : group.entries()) {
        ids.push_back(entry.parameter.id);
      }
      made[ids] = {group.dtype(), group.numel()};
    }
    CHECK(laid_out == made);
  }
}

TEST_CASE("a tied parameter is a group of its own, with all its users", "[model]") {
  const auto layouts = lay_out_groups(sample_graph(), {});
  REQUIRE(layouts.size() == 3);
  CHECK(layouts[0].name == "embed");
  CHECK(layouts[0].blocks == std::vector<uint32_t>{0, 2});
  CHECK(layouts[1].blocks == std::vector<uint32_t>{1});
  CHECK(layouts[1].parameters == std::vector<uint32_t>{1, 2, 3});
  CHECK(layouts[2].parameters == std::vector<uint32_t>{4});
  CHECK_FALSE(layouts[2].is_trainable);
}

TEST_CASE("the parameters of a unit are one group", "[model]") {
  ModelGraph graph = sample_graph();
  graph.blocks[1].unit = graph.blocks[2].unit = "layer";
  std::vector<GroupLayout> layouts = lay_out_groups(graph, {});
  REQUIRE(layouts.size() == 3);
  CHECK(layouts[0].blocks == std::vector<uint32_t>{0, 1, 2});  // whole units
  CHECK(layouts[1].name == "layer");
  CHECK(layouts[1].blocks == std::vector<uint32_t>{1, 2});
  CHECK(layouts[1].parameters == std::vector<uint32_t>{1, 2, 3});
  CHECK(layouts[2].name == "layer");

  // A parameter whose users are all in one unit is in its group.
  graph.blocks[0].unit = "layer";
  layouts = lay_out_groups(graph, {});
  REQUIRE(layouts.size() == 2);
  CHECK(layouts[0].name == "layer");
  CHECK(layouts[0].parameters == std::vector<uint32_t>{0, 1, 2, 3});
  CHECK(layouts[1].parameters == std::vector<uint32_t>{4});
}

TEST_CASE("a group has parameters of one owner, and keeps its place elsewhere", "[model]") {
  ModelGraph graph = sample_graph();
  const std::vector<GroupLayout> before = lay_out_groups(graph, {});
  for (const uint32_t p : {1, 2, 3, 4}) {
    graph.parameters[p].holders = {2};
    graph.parameters[p].is_elsewhere = true;
  }
  std::vector<GroupLayout> layouts = lay_out_groups(graph, {});
  REQUIRE(layouts.size() == before.size());
  for (size_t g = 0; g < layouts.size(); ++g) {
    CHECK(layouts[g].parameters == before[g].parameters);
    CHECK(layouts[g].ends(3) == before[g].ends(3));
    CHECK(layouts[g].holders == std::vector<uint32_t>{g == 0 ? 0U : 2U});
    CHECK(layouts[g].is_elsewhere == (g != 0));
  }
  graph.parameters[2].holders = {0};
  graph.parameters[2].is_elsewhere = false;
  layouts = lay_out_groups(graph, {});
  REQUIRE(layouts.size() == 4);
  CHECK(layouts[1].parameters == std::vector<uint32_t>{1, 3});
  CHECK(layouts[2].parameters == std::vector<uint32_t>{2});
  CHECK_FALSE(layouts[2].is_elsewhere);
}

TEST_CASE("each parameter and each slice begins on 64 bytes", "[model]") {
  GroupLayout group;
  group.stored = at::kFloat;
  group.seen = at::kFloat;
  group.numels = {1, 17, 16};
  CHECK(group.num_elements() == 34);
  CHECK(group.ends(1) == std::vector<int64_t>{16, 48, 64});
  CHECK(group.ends(3) == std::vector<int64_t>{16, 48, 96});
  group.seen = at::kBFloat16;  // the narrower one must fit too
  CHECK(group.ends(1) == std::vector<int64_t>{32, 64, 96});
  for (int64_t n = 1; n < 40; ++n) {
    CHECK(group.flat_numel(n) % (n * 32) == 0);
    CHECK(group.flat_numel(n) - 96 < n * 32);
  }
}

}  // namespace tenon
