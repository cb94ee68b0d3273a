// SPDX-License-Identifier: Apache-2.0
//
// The launcher's part when a run fails: it sees how the processes of ranks end, informs the others
// of those that end without a word, and knows at the end what each rank said last. It outlives all
// ranks and keeps their store, so that it reports, and they do not.
// Invariant: a launcher whose store fails still launches: it reports what it has seen itself.
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
    std::vector<RankRecord> lost;  // of ranks that have written none
    std::string folder;            // of the run; "" where it has none yet
    std::string last_words;        // of a rank that said nothing itself: how it ended; or ""
  };

  // Before a rank is started: they leave the report to the launcher.
  LaunchReport(std::unique_ptr<Store> store, uint32_t num_ranks);

  // For LaunchRequest::on_end.
  EndVerdict note_end(const EndedRank& end);

  // When no rank is left. None if none has failed, or where all said the same before their
  // first step: rank 0 has told that.
  std::optional<Failed> collect();
  // Whose error that was, where it was one rank's alone.
  std::optional<uint32_t> failed_early();

 private:
  std::unique_ptr<Store> store_;
  FailedRunStore run_;
  uint32_t num_ranks_;
  std::optional<RankFailure> first_;
  std::map<uint32_t, EndedRank> ended_;
};

}  // namespace tenon
