// SPDX-License-Identifier: Apache-2.0
//
// The launcher's part in a failed run. It observes how rank processes end, informs the other ranks
// of a rank that ended without a report, and collects the last status of each rank. It outlives all
// ranks and holds their store, so it prints the report, and ranks do not.
// Invariant: a launcher whose store fails still launches ranks, and reports its own observations.
// Threads: [main].
#pragma once

#include "host/distributed/failures/failed_run.hpp"
#include "host/distributed/launch/launch.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class LaunchReport {
 public:
  struct Failed {
    RankFailure first;
    std::vector<KnownRank> ranks;
    std::vector<RankRecord> lost;  // records of ranks that wrote none
    std::string folder;            // of the run; "" if it has none yet
    std::string last_words;        // how the failed rank ended, if its process died; otherwise ""
  };

  // Construct it before starting a rank: ranks then leave the report to the launcher.
  LaunchReport(std::unique_ptr<Store> store, uint32_t num_ranks);

  // For LaunchRequest::on_end.
  EndVerdict note_end(const EndedRank& end);

  // Call it when no rank is left. Returns none if no rank failed, or if all ranks shared an error
  // before their first step: rank 0 has printed that error.
  std::optional<Failed> collect();
  // Returns the run folder that the ranks have reported; "" if they had none yet.
  std::string folder();
  // Returns the rank that alone caused that error, if there is one.
  std::optional<uint32_t> failed_early();

 private:
  std::unique_ptr<Store> store_;
  FailedRunStore run_;
  uint32_t num_ranks_;
  std::optional<RankFailure> first_;
  std::map<uint32_t, EndedRank> ended_;
};

}  // namespace tenon
