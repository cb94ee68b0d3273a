// SPDX-License-Identifier: Apache-2.0
//
// A recipe to plan, as numbers, and the settings that a planner may choose.
// Threads: any.
#pragma once

#include "host/model/graph.hpp"
#include "host/model/group_layout.hpp"
#include "host/schedule/pipeline_schedule.hpp"
#include "host/train/plan/block_cost.hpp"

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Settings that a planner may choose, with the batch and the number of ranks fixed.
struct PlanChoice {
  int64_t replicate = 1;
  int64_t shard = 1;
  int64_t context = 1;
  int64_t tensor = 1;
  int64_t pipeline = 1;
  int stage = 3;
  bool recomputes = false;
  bool offloads = false;         // parameters, gradients and optimizer state, to host memory
  bool keeps_attention = false;  // recomputes all but attention
  std::optional<double> block_tile_share = {};  // share of positions in a tile; nothing: no tiles
  bool moves_activations = false;               // inputs of blocks that run again in backward

  // Ranks that have the same stages.
  int64_t ranks_of_stage() const { return replicate * shard * context * tensor; }
  int64_t num_ranks() const { return ranks_of_stage() * pipeline; }
  // Ranks that hold the same slice of parameters, of which tensor ranks have `num_copies` copies,
  // and add up its gradients.
  int64_t copies(int64_t num_copies) const { return replicate * context * num_copies; }

  bool operator==(const PlanChoice&) const = default;
};

struct PlannedLoss {
  std::vector<uint32_t> values;  // the model's values that it reads
  bool is_hand_written = true;   // if false, autograd keeps intermediate values
  int64_t working_bytes = 0;     // temporary, without the gradients of the values it reads
};

// The pipeline of a rank. Its stages are those of the graph.
struct PlannedPipeline {
  PipelineSchedule schedule;  // with whole backwards
  uint32_t rank = 0;          // in the pipeline
};

// The recipe to plan, as numbers.
struct PlanSubject {
  ModelGraph graph;
  std::vector<GroupLayout> groups;
  std::vector<BlockCost> costs;         // by block
  std::vector<bool> recomputable;       // by block: recomputed if a choice recomputes; empty: all
  std::vector<bool> tileable;           // by block; may be empty if no choice has tiles
  std::vector<double> optimizer_bytes;  // by partition: all slots of one element
  std::vector<size_t> optimizer_slots;  // by partition: tensors of a range; empty: unknown
  std::vector<PlannedLoss> losses;
  bool frees_gradients = false;  // updates run in the backward
  bool has_averages = false;     // of the trained parameters, which a hook keeps
  int64_t buffer_bytes = 0;      // of the model's buffers
  int64_t batch_bytes = 0;       // of all microbatches held at once, with prefetched ones
  int64_t exchange_bytes = 0;    // of ids and table rows between ranks, if all ids differ
  int64_t microbatches = 1;      // per step
  std::optional<PlannedPipeline> pipeline = {};
  std::optional<double> tile_share;  // share of positions in a loss chunk; nothing: no chunks
  std::optional<bool> reshard_after_forward;
  std::optional<at::ScalarType> gradient_dtype;  // of fp32 gradients on the wire; nothing: fp32
  int64_t bucket_bytes = 25 << 20;               // of gradients that are all-reduced together
  bool has_host = false;                         // devices have memory separate from the host's
  // Returns the memory that the allocator uses for a tensor; null: exactly the tensor's bytes.
  int64_t (*block_bytes)(int64_t bytes) = nullptr;

  // 0 without a pipeline.
  uint32_t pipeline_rank() const { return pipeline.has_value() ? pipeline->rank : 0; }
  int64_t rounding_of(int64_t bytes) const {
    return block_bytes != nullptr && bytes > 0 ? block_bytes(bytes) - bytes : 0;
  }
};

}  // namespace tenon
