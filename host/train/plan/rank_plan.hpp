// SPDX-License-Identifier: Apache-2.0
//
// Computes the memory, traffic and time of a step on one rank: memory by kind at the step's peak,
// bytes by collective and link, and seconds. It follows the order in which model_runner.hpp runs
// blocks and frees their outputs. Opens no device and calls no plugin.
// Not for costs of blocks (block_cost.hpp) nor for choosing among meshes (mesh_search.hpp).
// Invariants: bytes sent equal the bytes that a run counts, exactly; the kinds of memory add up to
// the sum that is compared with a rank's memory.
#pragma once

#include "host/train/plan/plan_machine.hpp"
#include "host/train/plan/plan_subject.hpp"

#include <cstdint>
#include <string>

namespace tenon {

// Bytes of a rank, by kind, at the peak.
struct PlanMemory {
  int64_t parameters = 0;  // persistent: slices, or unsharded parameters
  int64_t gradients = 0;   // persistent
  int64_t optimizer = 0;
  int64_t averages = 0;  // of parameters, for evaluation
  int64_t gathered = 0;  // temporary unsharded parameters and gradients
  int64_t activations = 0;
  int64_t batches = 0;
  int64_t buffers = 0;
  std::string moment;  // of the peak: "backward of block 'head'"
  int64_t host = 0;    // offloaded to host memory; not in sum()

  int64_t sum() const {
    return parameters + gradients + optimizer + averages + gathered + activations + batches +
           buffers;
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
