// SPDX-License-Identifier: Apache-2.0
//
// The reads of one window, in the order of delivery. A plan returns the next request and makes
// single reads; read_ahead.hpp decides on which thread, and how far in advance.
// Invariant: the sequence of batches depends only on the plan, never on when reads are made.

#pragma once

#include "host/data/packing.hpp"
#include "host/tensor/batch.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Reads of one lane, such as a shard of a stream, are made one at a time, in order. Reads without a
// lane may run concurrently.
inline constexpr uint32_t kNoLane = UINT32_MAX;

// The rows of one read, with packing.
struct PackedRead {
  std::vector<PackRow> rows;  // of this rank
  PackCounts counts;          // of all ranks
  PackPosition after;         // position of all ranks after this read
};

struct ReadRequest {
  uint32_t lane = kNoLane;
  int64_t first = 0;  // map style: positions [first, first + count) of the global order
  int64_t count = 0;
  int64_t cursor_after = 0;  // map style: position of all ranks after this read
  // With packing: `first` and `count` are of rows; null otherwise.
  std::shared_ptr<const PackedRead> packed = nullptr;
};

struct ReadResult {
  std::optional<Batch> batch = {};  // none: no samples were left in the lane, or they were dropped
  bool has_ended_lane = false;
  std::optional<std::string> position = {};  // of the lane, after this read
  int64_t num_dropped = 0;                   // samples read but not delivered
};

class ReadPlan {
 public:
  virtual ~ReadPlan() = default;

  // Returns the next read, or nothing if none is left as far as known.
  //
  // Threads  one call at a time, together with end_lane
  virtual std::optional<ReadRequest> next() = 0;
  // Reports that a read reached the end of a lane; next() no longer returns this lane.
  virtual void end_lane(uint32_t lane) = 0;
  // Makes one read.
  //
  // Errors   what the dataset returned; data.bad_batch
  // Threads  [worker]: concurrently with all functions, except two reads of one lane
  virtual ReadResult read(const ReadRequest& request) = 0;
};

}  // namespace tenon
