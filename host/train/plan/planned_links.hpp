// SPDX-License-Identifier: Apache-2.0
//
// Bytes that the collectives of a plan send over the links between ranks, and their duration. The
// ranks of a shard group have consecutive numbers, and ranks fill one machine after another.
// Source: bytes of ring collectives: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms
// for clusters of workstations (2009).
// Threads: any.
#pragma once

#include "host/train/plan/plan_machine.hpp"

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

namespace tenon {

class PlannedLinks {
 public:
  // `machine` is borrowed. `first` is the number of the first rank: with a pipeline, the links are
  // those of the ranks of a stage.
  PlannedLinks(int64_t replicate, int64_t shard, const PlanMachine& machine, int64_t first = 0);

  // Number of ranks whose next neighbor is on another machine, for rings along each dimension.
  struct Crossing {
    int64_t shard = 0;
    int64_t replicate = 0;
    int64_t world = 0;
  };

  // Returns the bytes that a rank sends to another machine, on average, of `bytes` in total.
  int64_t mean_between(int64_t bytes, int64_t Crossing::*kind) const;
  // Returns the bytes that leave the busiest machine if each rank sends `bytes`.
  int64_t leaving(int64_t bytes, int64_t Crossing::*kind) const { return bytes * (busiest_.*kind); }

  // Returns the seconds of one collective; a ring is as fast as its slowest link. `rounds` is 2 for
  // an all-reduce.
  double seconds(int64_t bytes, int64_t ranks, int64_t Crossing::*kind, int rounds = 1) const;

  // ---- messages to another stage: each rank sends to the one of the same place in it ----

  // Returns the share of ranks whose message leaves the machine. `distance` is that of the stages
  // in the pipeline.
  double share_away(int64_t distance) const;
  // Returns the bytes of messages that leave the fullest machine if each rank sends `bytes`.
  int64_t messages_leaving(int64_t bytes) const;
  // Returns the seconds of a message; some of the ranks have the slowest link.
  double message_seconds(int64_t bytes, int64_t distance) const;
  // Returns the seconds of an all-reduce over pipeline ranks, of which each sends `bytes`. `here`
  // is one of them.
  double sum_seconds(int64_t bytes,
                     const std::vector<uint32_t>& pipeline_ranks,
                     uint32_t here) const;

 private:
  const PlanMachine& machine_;
  const int64_t first_;
  int64_t ranks_ = 1;
  Crossing all_;
  Crossing busiest_;
};

// Returns the bytes that a rank sends for an all-reduce. On CPUs, dtypes narrower than fp32 are
// summed in a wider dtype by the rank that owns the part; all parts except the last are equal.
int64_t all_reduce_bytes(int64_t numel, at::ScalarType wire, int64_t ranks, bool on_cpu);

}  // namespace tenon
