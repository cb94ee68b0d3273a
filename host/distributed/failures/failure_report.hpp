// SPDX-License-Identifier: Apache-2.0
//
// Reports on a failed run with several ranks: one text for the terminal, and a record of each rank
// for programs. Only texts are built here; the caller writes and prints them.
#pragma once

#include "host/distributed/failures/rank_failure.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// How one rank ended, as reported by itself or by another process.
struct RankRecord {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  std::string written_by;  // "rank 2", "the launcher"
  RankFailure first;       // first failure of the run
  std::string error_id;    // with which this rank ended; "" if it reported none
  std::string error;
  int exit_code = 5;
  std::string time;  // "2026-11-21T10:15:00Z"
  RankStatus status;
  double status_age = 0;                         // seconds; 0 in the rank's own record
  std::vector<SeenCollective> last_collectives;  // of all groups, oldest first; may be empty
};

// Returns the text of errors/rank-N.json.
std::string to_json_text(const RankRecord& record);

// Returns the report: the failure, then one line per rank with its activity (at most 16 lines,
// always including the failed rank), then the folder of the records.
//
//   [distributed.failed] rank 2 failed in step 3, at after_backward: [plugin.failed] ...
//     rank 0: in step 3, at before_optimizer_step; shard 12: all_gather of ...
//     ...
//   records of all ranks: runs/x/errors
//
// `ranks` are in order; `folder` may be "".
std::string report_text(const RankFailure& first,
                        std::span<const KnownRank> ranks,
                        const std::string& folder);

// Returns the current UTC time, in the format of records.
std::string utc_time_text();

}  // namespace tenon
