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

namespace tenon {

class PlannedLinks {
 public:
  // `machine` is borrowed.
  PlannedLinks(int64_t replicate, int64_t shard, const PlanMachine& machine);

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

 private:
  const PlanMachine& machine_;
  int64_t ranks_ = 1;
  Crossing all_;
  Crossing busiest_;
};

// Returns the bytes that a rank sends for an all-reduce. On CPUs, dtypes narrower than fp32 are
// summed in a wider dtype by the rank that owns the part; all parts except the last are equal.
int64_t all_reduce_bytes(int64_t numel, at::ScalarType wire, int64_t ranks, bool on_cpu);

}  // namespace tenon
