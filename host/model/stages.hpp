// SPDX-License-Identifier: Apache-2.0
//
// The stages of a pipeline: runs of units of the graph of a run. Each stage is on one rank of the
// pipeline, and a rank may have several. The graph stays whole on all ranks: blocks and parameters
// of other ranks are marked (`is_elsewhere`), and take no memory.
//
// Invariants: a unit is never divided; the stage never decreases along a value; the blocks of each
// model are cut separately, and the last unit of each is in the last stage; a state buffer is used
// in one stage.
// Source: docs/decisions/0091-schedules-are-data.md
// Threads: any.
#pragma once

#include "host/distributed/ranks/rank_role.hpp"
#include "host/model/graph.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// Where the stages begin.
struct StageStarts {
  // Name patterns, one for each stage except the first: the unit with the first block of the
  // trained model that matches begins the stage. Empty: stages have nearly equal costs.
  std::vector<std::string> patterns = {};
};

// Sets the stage of each block, so that the most expensive stage costs as little as possible; of
// equal cuts, the one whose earlier stages have fewer units. The cost of a unit is the number of
// elements that its products read: parameters with two or more axes, except those of blocks that
// read batch fields alone, which look rows up. If a model has fewer units than stages, the last
// stages have them. A model that shares parameters with the trained one has its cut.
// Errors  model.too_few_units if the trained model has fewer units than stages; model.bad_stages for
//         another number of patterns than stages need, a pattern that matches no block, or out of
//         order, for a state buffer that two stages share, or a block that reads a value of a later
//         stage
void assign_stages(ModelGraph& graph, uint32_t num_stages, const StageStarts& starts = {});

// Marks what other ranks of the pipeline have. `owners` has the pipeline rank of each stage. Call
// it after assign_stages.
void cut_stages(ModelGraph& graph, std::span<const uint32_t> owners, RankIndex pipeline);

// Returns the units of the trained model in a stage: "embed_tokens to layers.1".
std::string units_text(const ModelGraph& graph, uint32_t stage);

// Returns the stages that a pipeline rank has, ascending.
std::vector<uint32_t> stages_of(const ModelGraph& graph, uint32_t rank);

// ---- what stages send each other ----

// The stages that exchange a value. It goes from its maker directly to each later stage that reads
// it; its gradient returns as a running sum, from the last of these stages to the next earlier
// one, and from the first to the maker.
struct ValueRoute {
  uint32_t value = 0;
  uint32_t maker = 0;             // stage
  std::vector<uint32_t> readers;  // later stages, ascending
};

// Returns the routes of all values that blocks make, and later stages read: by blocks, or by losses
// and metrics in the last stage (`read_at_end`).
std::vector<ValueRoute> value_routes(const ModelGraph& graph,
                                     std::span<const uint32_t> read_at_end);

// What a stage exchanges with the stages of other ranks in a microbatch. A value is sent once to
// each rank, for the first of its stages that reads it. Stages of one rank send each other nothing.
struct StageTraffic {
  struct Lot {
    uint32_t stage = 0;  // the other one
    std::vector<uint32_t> values;
    bool operator==(const Lot&) const = default;
  };
  // By stage, ascending.
  std::vector<Lot> receives;
  std::vector<Lot> sends;
  std::vector<Lot> receives_gradients;
  std::vector<Lot> sends_gradients;
};

// Returns what `stage` exchanges. `routes` are those of all values; `has_gradient` says which of
// them have a gradient that returns.
StageTraffic traffic_of(const ModelGraph& graph,
                        std::span<const ValueRoute> routes,
                        uint32_t stage,
                        const std::function<bool(uint32_t value)>& has_gradient);

}  // namespace tenon
