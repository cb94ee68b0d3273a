// SPDX-License-Identifier: Apache-2.0
//
// What is to be read of one window, read by read, in the order of delivery. A plan says what comes
// next and does one read; on which thread, and how far ahead, is read_ahead.hpp's.
// Invariant: the sequence of batches depends on the plan alone, never on when reads are made.

#pragma once

#include "host/tensor/batch.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

// Reads of one lane are made one at a time, in order: a shard of a stream. Reads without a lane may
// be made at once.
inline constexpr uint32_t kNoLane = UINT32_MAX;

struct ReadRequest {
  uint32_t lane = kNoLane;
  int64_t first = 0;  // map style: positions [first, first + count) of the global order
  int64_t count = 0;
  int64_t cursor_after = 0;  // map style: the position that all ranks have reached with this read
};

struct ReadResult {
  std::optional<Batch> batch = {};  // none: the lane had nothing left, or what it had was dropped
  bool has_ended_lane = false;
  std::optional<std::string> position = {};  // of the lane, after this read
  int64_t num_dropped = 0;                   // samples read and not delivered
};

class ReadPlan {
 public:
  virtual ~ReadPlan() = default;

  // The next read, or none if nothing is left of what is known now.
  //
  // Threads  one call at a time, together with end_lane
  virtual std::optional<ReadRequest> next() = 0;
  // A read found this lane's end: next() asks for it no more.
  virtual void end_lane(uint32_t lane) = 0;
  // Makes one read.
  //
  // Errors   what the dataset returned; data.bad_batch
  // Threads  [worker]: at once with all functions, except two reads of one lane
  virtual ReadResult read(const ReadRequest& request) = 0;
};

}  // namespace tenon
