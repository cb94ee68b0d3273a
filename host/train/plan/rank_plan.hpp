// SPDX-License-Identifier: Apache-2.0
//
// Computes the memory, traffic and time of a step on one rank: memory by kind at the step's peak,
// bytes by collective and link, and seconds. It follows the order in which model_runner.hpp runs
// blocks and frees their outputs. Opens no device and calls no plugin.
// Not for costs of blocks (block_cost.hpp) nor for choosing among meshes (mesh_search.hpp).
// Invariants: bytes sent equal the bytes that a run counts, exactly; the kinds of memory add up to
// the sum that is compared with a rank's memory.
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

// Settings that a planner may choose, with the batch and the number of ranks fixed.
struct PlanChoice {
  int64_t replicate = 1;
  int64_t shard = 1;
  int stage = 3;
  bool recomputes = false;
  bool offloads = false;  // parameters, gradients and optimizer state, to host memory

  bool operator==(const PlanChoice&) const = default;
};

struct PlannedLoss {
  std::vector<uint32_t> values;  // the model's values that it reads
  bool is_hand_written = true;   // if false, autograd keeps intermediate values
  int64_t working_bytes = 0;     // temporary, without the gradients of the values it reads
};

// The recipe to plan, as numbers.
struct PlanSubject {
  ModelGraph graph;
  std::vector<GroupLayout> groups;
  std::vector<BlockCost> costs;         // by block
  std::vector<bool> recomputable;       // by block: recomputed if a choice recomputes; empty: all
  std::vector<double> optimizer_bytes;  // by partition: all slots of one element
  std::vector<PlannedLoss> losses;
  bool frees_gradients = false;      // updates run in the backward
  int64_t buffer_bytes = 0;          // of the model's buffers
  int64_t batch_bytes = 0;           // of a microbatch
  int64_t batches_held = 1;          // at once, with prefetched ones
  int64_t microbatches = 1;          // per step
  std::optional<double> tile_share;  // share of positions in a loss chunk; nothing: no chunks
  std::optional<bool> reshard_after_forward;
  std::optional<at::ScalarType> gradient_dtype;  // of fp32 gradients on the wire; nothing: fp32
  int64_t bucket_bytes = 25 << 20;               // of gradients that are all-reduced together
  bool has_host = false;                         // devices have memory separate from the host's
};

// Bytes of a rank, by kind, at the peak.
struct PlanMemory {
  int64_t parameters = 0;  // persistent: slices, or unsharded parameters
  int64_t gradients = 0;   // persistent
  int64_t optimizer = 0;
  int64_t gathered = 0;  // temporary unsharded parameters and gradients
  int64_t activations = 0;
  int64_t batches = 0;
  int64_t buffers = 0;
  std::string moment;  // of the peak: "backward of block 'head'"
  int64_t host = 0;    // offloaded to host memory; not in sum()

  int64_t sum() const {
    return parameters + gradients + optimizer + gathered + activations + batches + buffers;
  }
};

// Bytes that a rank sends in a step.
struct PlanTraffic {
  struct Kind {
    int64_t sent = 0;           // by each rank
    int64_t between_nodes = 0;  // the part sent to other nodes, averaged over ranks
  };
  Kind all_gather;
  Kind reduce_scatter;
  Kind all_reduce;
  int64_t leaving_node = 0;  // sent by all ranks of the busiest node together

  int64_t sent() const { return all_gather.sent + reduce_scatter.sent + all_reduce.sent; }
  int64_t between_nodes() const {
    return all_gather.between_nodes + reduce_scatter.between_nodes + all_reduce.between_nodes;
  }
};

// Seconds of a step, and its operations.
struct PlanTime {
  double compute = 0;  // recompute included
  double recompute = 0;
  double communication = 0;  // without overlap
  double exposed = 0;        // communication that does not overlap with computation
  double step = 0;
  double flops = 0;  // operations of a rank, without recompute
};

struct RankPlan {
  PlanChoice choice;
  PlanMemory memory;
  PlanTraffic traffic;
  PlanTime time;
};

// Plans a step of one rank. The number of ranks is `choice.replicate * choice.shard`.
RankPlan plan_rank(const PlanSubject& subject,
                   const PlanChoice& choice,
                   const PlanMachine& machine);

}  // namespace tenon
