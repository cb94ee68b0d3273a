// SPDX-License-Identifier: Apache-2.0
//
// What one rank of many would hold, send and take for a step, by arithmetic: memory by kind at the
// step's fullest moment, bytes by collective and link, seconds. It follows the order in which
// model_runner.hpp runs blocks and frees what they made; it opens no device and asks no plugin.
// Not for costs of blocks (block_cost.hpp) nor for choosing among meshes (mesh_search.hpp).
// Invariants: bytes sent are those that a run counts, to the byte; the kinds of memory add up to
// the sum that is compared with what a rank has.
#pragma once

#include "host/model/graph.hpp"
#include "host/model/group_layout.hpp"
#include "host/train/plan/block_cost.hpp"
#include "host/train/plan/plan_machine.hpp"

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// What a planner may choose, at the same batch and the same number of ranks.
struct PlanChoice {
  int64_t replicate = 1;
  int64_t shard = 1;
  int stage = 3;
  bool recomputes = false;
  bool offloads = false;  // parameters, gradients and optimizer state, to the host's memory

  bool operator==(const PlanChoice&) const = default;
};

struct PlannedLoss {
  std::vector<uint32_t> values;  // of the model, that it reads and are differentiated
  bool is_hand_written = true;   // else autograd keeps something
  int64_t working_bytes = 0;     // that it holds while it works, beside gradients of what it reads
};

// What is planned: a recipe, put in numbers.
struct PlanSubject {
  ModelGraph graph;
  std::vector<GroupLayout> groups;
  std::vector<BlockCost> costs;          // by block
  std::vector<int64_t> optimizer_bytes;  // by partition: of all slots, an element
  std::vector<PlannedLoss> losses;
  int64_t buffer_bytes = 0;          // of the model's buffers
  int64_t batch_bytes = 0;           // of a microbatch
  int64_t batches_held = 1;          // at once, with those that are read ahead
  int64_t microbatches = 1;          // a step
  std::optional<double> tile_share;  // of the last block's positions, where the loss is tiled
  std::optional<bool> reshard_after_forward;
  std::optional<at::ScalarType> gradient_dtype;  // on the wire; as stored where it is absent
  int64_t bucket_bytes = 25 << 20;  // of gradients that are summed over all ranks at once
  bool has_host = false;            // devices with memory of their own
};

// Bytes of a rank, by kind, at the moment when they are the most.
struct PlanMemory {
  int64_t parameters = 0;  // kept all the time: slices, or wholes
  int64_t gradients = 0;   // kept all the time
  int64_t optimizer = 0;
  int64_t gathered = 0;  // wholes of parameters and gradients that come and go
  int64_t activations = 0;
  int64_t batches = 0;
  int64_t buffers = 0;
  std::string moment;  // "backward of block 'head'"
  int64_t host = 0;    // in the host's memory, beside: what is offloaded

  int64_t sum() const {
    return parameters + gradients + optimizer + gathered + activations + batches + buffers;
  }
};

// Bytes that a rank sends in a step.
struct PlanTraffic {
  struct Kind {
    int64_t sent = 0;           // by each rank
    int64_t between_nodes = 0;  // of them, in the mean over ranks
  };
  Kind all_gather;
  Kind reduce_scatter;
  Kind all_reduce;
  int64_t leaving_node = 0;  // of the ranks of one node together, the busiest

  int64_t sent() const { return all_gather.sent + reduce_scatter.sent + all_reduce.sent; }
  int64_t between_nodes() const {
    return all_gather.between_nodes + reduce_scatter.between_nodes + all_reduce.between_nodes;
  }
};

// Seconds of a step.
struct PlanTime {
  double compute = 0;  // recompute included
  double recompute = 0;
  double communication = 0;  // if it were alone
  double exposed = 0;        // communication that nothing hides
  double step = 0;
  double flops = 0;  // of a rank, without recompute
};

struct RankPlan {
  PlanChoice choice;
  PlanMemory memory;
  PlanTraffic traffic;
  PlanTime time;
};

// `choice.replicate * choice.shard` is the number of ranks.
RankPlan plan_rank(const PlanSubject& subject,
                   const PlanChoice& choice,
                   const PlanMachine& machine);

}  // namespace tenon
