// SPDX-License-Identifier: Apache-2.0
//
// What is said of a run of many ranks that has failed: one report for the terminal, and a record of
// each rank for programs. Texts alone: who writes and prints them is the caller's.
#pragma once

#include "host/distributed/failures/rank_failure.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// What became of one rank, by its own account or by another's.
struct RankRecord {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  std::string written_by;  // "rank 2", "the launcher"
  RankFailure first;       // what the run failed of
  std::string error_id;    // what this rank ended with; "" where it did not say
  std::string error;
  int exit_code = 5;
  std::string time;  // "2026-11-21T10:15:00Z"
  RankStatus status;
  double status_age = 0;                         // seconds; 0 in its own record
  std::vector<SeenCollective> last_collectives;  // of all groups, oldest first; may be empty
};

// errors/rank-N.json.
std::string to_json_text(const RankRecord& record);

// The report: the failure first, then a line for each rank of what it was doing (of 16 at most, the
// failed one among them), then where the records are.
//
//   [distributed.failed] rank 2 of 4 failed in step 3, at after_backward: [plugin.failed] ...
//     rank 0: in step 3, at before_optimizer_step; shard 12: all_gather of ...
//     ...
//   records of all ranks: runs/x/errors
//
// `ranks` are in order; `folder` may be "".
std::string report_text(const RankFailure& first,
                        std::span<const KnownRank> ranks,
                        const std::string& folder);

// The time now, in UTC, as records have it.
std::string utc_time_text();

}  // namespace tenon
