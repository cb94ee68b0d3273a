// SPDX-License-Identifier: Apache-2.0
//
// Bytes that a rank sends in a step, as sums over the instructions of its program. Excludes rows of
// tables, whose number depends on the data, and what ranks agree about.
// Invariant: the sums are those that a run counts, exactly.
// Threads: any.
#pragma once

#include "host/train/plan/planned_links.hpp"
#include "host/train/plan/planned_pass.hpp"

#include <cstdint>

namespace tenon {

// Bytes that a rank sends in a step.
struct PlanTraffic {
  struct Kind {
    int64_t sent = 0;           // by each rank
    int64_t between_nodes = 0;  // the part sent to other nodes, averaged over ranks
  };
  Kind all_gather;
  Kind reduce_scatter;
  Kind all_reduce;
  Kind messages;             // between stages of a pipeline
  int64_t leaving_node = 0;  // sent by all ranks of the busiest node together

  int64_t sent() const {
    return all_gather.sent + reduce_scatter.sent + all_reduce.sent + messages.sent;
  }
  int64_t between_nodes() const {
    return all_gather.between_nodes + reduce_scatter.between_nodes + all_reduce.between_nodes +
           messages.between_nodes;
  }
};

// Bytes that an instruction sends, by collective and by the ranks that take part.
struct SentBytes {
  int64_t gathered = 0;            // all-gather over a shard group
  int64_t scattered = 0;           // reduce-scatter over a shard group
  int64_t reduced_by_replica = 0;  // all-reduce over the replicas of a slice
  int64_t reduced_by_world = 0;    // all-reduce over all ranks of a stage
  int64_t messages = 0;            // to a rank of another stage, with headers

  int64_t sum() const {
    return gathered + scattered + reduced_by_replica + reduced_by_world + messages;
  }
};

// Returns the bytes of an instruction of `program`. A kGather sends them if no other microbatch
// keeps the group whole.
SentBytes sent_by(const PlannedPass& pass,
                  const Program& program,
                  const Instruction& instruction,
                  bool is_last_microbatch);
// Returns the bytes of the message with a value, or with its gradient.
int64_t message_bytes(const PlanSubject& subject, uint32_t value);
// Returns the bytes of the gathers that an update starts: of parameters that are kept whole, and
// updated by slices.
SentBytes sent_by_update(const PlannedGroup& group);

PlanTraffic planned_traffic(const PlannedPass& pass, const PlannedLinks& links);

}  // namespace tenon
