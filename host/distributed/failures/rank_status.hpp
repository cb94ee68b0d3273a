// SPDX-License-Identifier: Apache-2.0
//
// The status that one rank reports to the others: its heartbeat. Statuses are sent as text through
// the store. A reader learns nothing about the writer's clock, only durations.
#pragma once

#include "host/distributed/collectives/collective_record.hpp"
#include "host/distributed/failures/process_look.hpp"
#include "host/distributed/failures/rank_activity.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// A collective, and how long ago it was started.
struct SeenCollective {
  CollectiveRecord record;  // `began` is not sent, so it is unset in a status that was read
  double seconds = 0;

  bool is_done() const { return record.state == CollectiveRecord::State::kDone; }
  // `shard 12: all_gather of "parameters of block 3", 4096 bytes, under way for 2.5 s`.
  std::string text() const;
};

struct RankStatus {
  uint64_t beat = 0;  // grows with each heartbeat
  std::string machine;
  ProcessName process;
  RankActivity activity;
  std::vector<SeenCollective> collectives;  // the last one of each group, oldest first
  bool is_starting = true;                  // this rank has not finished a step since its start
  bool is_leaving = false;                  // the run has ended normally on this rank

  // Returns the unfinished collective that was started first, else the last one; null if none.
  const SeenCollective* last_collective() const;
};

// Returns the last record of each group, oldest first, with its current age.
std::vector<SeenCollective> last_of_each_group(const std::vector<CollectiveRecord>& records);
// Returns all records in the same way.
std::vector<SeenCollective> seen_now(const std::vector<CollectiveRecord>& records);

std::string to_text(const RankStatus& status);
// Errors  distributed.failed if the text is not a status
RankStatus read_rank_status(const std::string& text);

// "done", "under way", "failed".
const char* state_name(CollectiveRecord::State state);

}  // namespace tenon
