// SPDX-License-Identifier: Apache-2.0
//
// Recipes to plan, drawn at random: graphs with units, frozen parameters, tables and several
// models, with costs of their blocks and choices of a mesh.
#pragma once

#include "host/model/block_tiles.hpp"
#include "host/train/plan/plan_machine.hpp"
#include "host/train/plan/plan_subject.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/host/model/random_graph.hpp"

namespace tenon {

struct RandomPlan {
  PlanSubject subject;
  PlanChoice choice;
};

inline void draw_costs(PlanSubject& subject, Draw& draw) {
  const auto bytes = [&draw](uint32_t most) { return int64_t{64} * draw.number(0, most); };
  for (const ModelBlock& block : subject.graph.blocks) {
    BlockCost cost;
    cost.forward_flops = 1e6 * draw.number(1, 1000);
    cost.backward_flops = 2 * cost.forward_flops;
    for (size_t i = 0; i < block.outputs.size(); ++i) {
      cost.bytes_of_output.push_back(64 + bytes(100));
      cost.output_bytes += cost.bytes_of_output.back();
    }
    cost.bytes_of_rows.assign(block.inputs.size(), 64 + bytes(20));
    cost.saved_bytes = bytes(300);
    cost.attention_bytes = draw.chance(40) ? bytes(100) : 0;
    cost.working_bytes = bytes(300);
    subject.costs.push_back(cost);
  }
}

// Without chunks of the losses.
inline RandomPlan random_plan(uint64_t seed) {
  RandomGraph of(seed);
  RandomPlan plan;
  PlanSubject& subject = plan.subject;
  subject.graph = of.make();
  Draw& draw = of.draw();
  const uint32_t output = subject.graph.blocks.back().outputs.front();
  for (uint32_t v = 0; v < subject.graph.values.size(); ++v) {
    subject.graph.values[v].is_read = v == output;
  }
  draw_costs(subject, draw);
  subject.losses = {{.values = {output},
                     .is_hand_written = draw.chance(70),
                     .working_bytes = int64_t{64} * draw.number(0, 10)}};
  subject.tileable = tileable_blocks(subject.graph);
  subject.optimizer_bytes = {8};
  subject.microbatches = draw.number(1, 3);
  subject.bucket_bytes = int64_t{64} * draw.number(1, 40);
  if (draw.chance(40)) {
    subject.reshard_after_forward = draw.chance(50);
  }
  const uint32_t unsharded = draw.number(0, 6);
  subject.groups = lay_out_groups(
      subject.graph, {.is_unsharded = [unsharded](uint32_t p) { return p % 5 == unsharded; }});
  plan.choice = {.replicate = draw.number(1, 2),
                 .shard = draw.one_of(std::vector<uint32_t>{1, 1, 2, 4}),
                 .stage = static_cast<int>(draw.number(1, 3)),
                 .recomputes = draw.chance(50),
                 .moves_activations = draw.chance(30)};
  plan.choice.keeps_attention = plan.choice.recomputes && draw.chance(50);
  if (draw.chance(30)) {
    plan.choice.block_tile_share = 0.25;
  }
  return plan;
}

inline constexpr PlanMachine kRandomMachine = {.ranks_per_node = 4,
                                               .flops = 1e12,
                                               .bandwidth_node = 1e9,
                                               .bandwidth_network = 1e8,
                                               .bandwidth_host = 1e9,
                                               .latency = 1e-6};

}  // namespace tenon
