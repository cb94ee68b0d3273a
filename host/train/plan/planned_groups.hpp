// SPDX-License-Identifier: Apache-2.0
//
// Groups of parameters of a planned step: their bytes by choice, the buckets of their gradients and
// the state of their optimizers. Not for when they are whole (compile_program.hpp).
// Threads: any.
#pragma once

#include "host/model/group_facts.hpp"
#include "host/train/plan/plan_subject.hpp"

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tenon {

inline int64_t size_of(at::ScalarType dtype) {
  return static_cast<int64_t>(c10::elementSize(dtype));
}

// Gradients of neighboring groups that are all-reduced together once the last one is complete.
struct PlannedBucket {
  int64_t bytes = 0;  // sent by a rank
  int64_t copy = 0;   // of the copy in the wire dtype; 0 if none is needed
};

// A group of parameters, sharded by this choice. All bytes are 0 if another pipeline rank stores
// it.
struct PlannedGroup {
  GroupFacts facts;
  int64_t num_copies = 1;        // on tensor ranks
  int64_t whole_seen = 0;        // bytes, here and below
  int64_t whole_grad = 0;        // 0 if frozen
  int64_t wire_grad = 0;         // the same, in the dtype on the wire
  int64_t gather_copy = 0;       // of the slice, if its storage differs in dtype or device
  int64_t gather_bytes = 0;      // sent by a rank to gather it once
  int64_t reduce_bytes = 0;      // sent to reduce-scatter its gradients once
  int64_t all_reduce_bytes = 0;  // sent to all-reduce its slice's gradients over `replicate` once
  int64_t tied_bytes = 0;        // sent to add up its gradients over pipeline ranks once a step
  bool is_bucketed = false;      // unsharded gradients, all-reduced together with neighbors
  std::optional<PlannedBucket> completes = {};  // the bucket whose last gradients are these

  int64_t slice_seen() const { return whole_seen / facts.num_slices; }
  int64_t slice_grad() const { return whole_grad / facts.num_slices; }
};

// True if parameters, gradients and optimizer state are in memory of the host.
inline bool is_on_host(const PlanSubject& subject, const PlanChoice& choice) {
  return choice.offloads && subject.has_host;
}

// True if ranks add up unsharded gradients of the group, in a bucket.
bool is_summed(const PlannedGroup& group, const PlanChoice& choice);

// Returns the groups of a subject, in their order.
std::vector<PlannedGroup> planned_groups(const PlanSubject& subject,
                                         const PlanChoice& choice,
                                         const GraphFacts& facts);

// Returns what each rank keeps of a group.
FlatSharing planned_sharing(const GroupLayout& layout,
                            const PlanSubject& subject,
                            const PlanChoice& choice);

// Returns the dtype of gradients on the wire; only fp32 gradients may be narrowed.
at::ScalarType wire_of(const GroupLayout& layout, std::optional<at::ScalarType> gradient_dtype);

// Returns the bytes of optimizer state of the slice that has the most. `rates_of_partitions` holds,
// by partition, the bytes of all slots of one element.
int64_t optimizer_bytes(const GroupLayout& layout,
                        int64_t slices,
                        const std::vector<double>& rates_of_partitions);

// Returns what the allocator adds to the optimizer's tensors for a slice: those of the first one,
// where each range of one partition has as many tensors as the optimizer has slots.
int64_t optimizer_rounding(const GroupLayout& layout, int64_t slices, const PlanSubject& subject);

}  // namespace tenon
