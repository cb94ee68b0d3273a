// SPDX-License-Identifier: Apache-2.0
//
// What one rank is doing, as it reports to the others: its heartbeat. Texts of it travel through
// the store; whoever reads one learns nothing of the writer's clock, only how long things have
// taken.
#pragma once

#include "host/distributed/collectives/collective_record.hpp"
#include "host/distributed/failures/process_look.hpp"
#include "host/distributed/failures/rank_activity.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// A collective, and how long ago it was begun.
struct SeenCollective {
  CollectiveRecord record;  // `began` says nothing if it has travelled
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
  bool is_starting = true;                  // it has not ended a step since it was started
  bool is_leaving = false;                  // the run is over here, in order

  // The one that has not come to its end for longest, else the last one begun; null for none.
  const SeenCollective* last_collective() const;
};

// The last record of each group, oldest first, and how long ago it was begun by now.
std::vector<SeenCollective> last_of_each_group(const std::vector<CollectiveRecord>& records);
// All of them, likewise.
std::vector<SeenCollective> seen_now(const std::vector<CollectiveRecord>& records);

std::string to_text(const RankStatus& status);
// Errors  distributed.failed if it is no status
RankStatus read_rank_status(const std::string& text);

// "done", "under way", "failed".
const char* state_name(CollectiveRecord::State state);

}  // namespace tenon
