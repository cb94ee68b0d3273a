// SPDX-License-Identifier: Apache-2.0
//
// A chain of blocks to plan, each with one matrix, one value and a separate cost.
#pragma once

#include <tenon/model.h>

#include "host/train/plan/plan_machine.hpp"
#include "host/train/plan/plan_subject.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

struct Link {
  int64_t elements = 0;
  BlockCost cost;
};

inline BlockCost cost_of(double flops, int64_t output, int64_t saved, int64_t working) {
  BlockCost cost;
  cost.forward_flops = flops;
  cost.backward_flops = 2 * flops;
  cost.output_bytes = output;
  cost.bytes_of_output = {output};
  cost.saved_bytes = saved;
  cost.working_bytes = working;
  return cost;
}

inline PlanSubject chain(const std::vector<Link>& links) {
  PlanSubject subject;
  ModelGraph& graph = subject.graph;
  graph.values.emplace_back();
  for (uint32_t b = 0; b < links.size(); ++b) {
    ModelParameter parameter;
    parameter.name = "w" + std::to_string(b);
    parameter.shape = {links[b].elements};
    parameter.dtype = TENON_CLASS_PARAM;
    parameter.blocks = {b};
    graph.parameters.push_back(parameter);
    ModelValue value;
    value.name = "x" + std::to_string(b);
    value.maker = b;
    value.is_read = b + 1 == links.size();
    graph.values.push_back(value);
    ModelBlock block;
    block.name = "block" + std::to_string(b);
    block.inputs = {b};
    graph.values[b].users = {b};
    block.outputs = {b + 1};
    block.parameters = {b};
    graph.blocks.push_back(block);
    subject.costs.push_back(links[b].cost);
  }
  subject.groups = lay_out_groups(graph, {});
  subject.optimizer_bytes = {8};
  subject.losses = {{.values = {static_cast<uint32_t>(links.size())}}};
  return subject;
}

inline PlanSubject small_chain() {
  return chain({{100, cost_of(1e9, 1000, 3000, 700)},
                {5000, cost_of(2e9, 2000, 5000, 21'000)},
                {64, cost_of(4e9, 4000, 100, 300)}});
}

inline constexpr PlanMachine kMachine = {.ranks_per_node = 4,
                                         .flops = 1e12,
                                         .bandwidth_node = 1e9,
                                         .bandwidth_network = 1e8,
                                         .bandwidth_host = 1e9,
                                         .latency = 1e-6};

}  // namespace tenon
