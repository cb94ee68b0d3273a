// SPDX-License-Identifier: Apache-2.0
//
// What collectives of a plan send over the links between ranks, and how long they take. Ranks are
// numbered so that those of one shard group are neighbours, and fill one machine after the other.
// Source: bytes of collectives as rings send them: Patarasuk and Yuan, Bandwidth optimal all-reduce
// algorithms for clusters of workstations (2009).
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

  // The number of ranks that send to another machine, as neighbours of a ring along a dimension.
  struct Crossing {
    int64_t shard = 0;
    int64_t replicate = 0;
    int64_t world = 0;
  };

  // Bytes that a rank sends to another machine, on average, if it sends `bytes` in all.
  int64_t mean_between(int64_t bytes, int64_t Crossing::*kind) const;
  // Bytes that leave the busiest machine, if each rank sends `bytes`.
  int64_t leaving(int64_t bytes, int64_t Crossing::*kind) const { return bytes * (busiest_.*kind); }

  // Seconds of one collective; a ring is as fast as its slowest link. `rounds` is 2 for an
  // all-reduce.
  double seconds(int64_t bytes, int64_t ranks, int64_t Crossing::*kind, int rounds = 1) const;

 private:
  const PlanMachine& machine_;
  int64_t ranks_ = 1;
  Crossing all_;
  Crossing busiest_;
};

// Bytes that a rank sends for an all-reduce. On CPUs, narrow numbers are summed in a wider dtype by
// the rank that owns their part; parts are equal except the last ones.
int64_t all_reduce_bytes(int64_t numel, at::ScalarType wire, int64_t ranks, bool on_cpu);

}  // namespace tenon
