// SPDX-License-Identifier: Apache-2.0
//
// The state of a failed run in the run's store: the first failure, and the last status of each
// rank. The ranks' monitors write it; the process that reports, a rank or the launcher, reads it.
#pragma once

#include "host/distributed/failures/failure_report.hpp"
#include "host/distributed/failures/rank_failure.hpp"
#include "host/distributed/ranks/store.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// All functions:
// Errors   distributed.failed if the store cannot be reached
// Threads  any, but one at a time for one Store
class FailedRunStore {
 public:
  explicit FailedRunStore(Store& store) : store_(store) {}

  // Sets the first failure of the run if none is set. Returns the first failure.
  RankFailure declare(const RankFailure& failure);
  std::optional<RankFailure> first();

  void set_status(uint32_t rank, const RankStatus& status);
  std::optional<RankStatus> status(uint32_t rank);

  // Each returns true for one caller only: the rank that determines the cause, the rank that acts
  // for rank 0 if rank 0 is lost, and the process that reports. `who` is "rank 2".
  bool claim_judging(const std::string& who);
  bool claim_first(const std::string& who);
  bool claim_report(const std::string& who);
  bool is_report_claimed();

  // Reports that the record of `rank` is written.
  void add_record(uint32_t rank);
  bool has_record(uint32_t rank);
  int64_t num_records();
  // Reports that a rank will not use the store again.
  void leave();
  int64_t num_left();

  // The rank that alone caused the error with which all ranks end before the first step.
  void set_early_failure(uint32_t rank);
  std::optional<uint32_t> early_failure();

  // The run folder, for a process that did not create it.
  void set_folder(const std::string& folder);
  std::string folder();  // "" if there is none

  // Returns the last status of each rank. Ages are 0, because they are unknown here.
  std::vector<KnownRank> ranks(uint32_t world_size);

 private:
  bool claim(const char* key, const std::string& who);
  Store& store_;
};

// Returns the record of a rank that could not write its own.
RankRecord record_of_lost(const KnownRank& known,
                          uint32_t world_size,
                          const RankFailure& first,
                          const std::string& written_by);

}  // namespace tenon
