// SPDX-License-Identifier: Apache-2.0
//
// A run that has failed, as it stands in the run's store: who was first, and the last that each
// rank said. Written by the ranks' monitors; read by the one that reports, a rank or the launcher.
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
// Errors   distributed.failed if the store is not reached.
// Threads: any, but one
// at a time for one Store.
class FailedRunStore {
 public:
  explicit FailedRunStore(Store& store) : store_(store) {}

  // Says what the run has failed of, if nobody has; returns what it is then.
  RankFailure declare(const RankFailure& failure);
  std::optional<RankFailure> first();

  void set_status(uint32_t rank, const RankStatus& status);
  std::optional<RankStatus> status(uint32_t rank);

  // True for one of those who ask: to find out who is to blame, to report, and to do what rank 0
  // would where that is lost. `who` is "rank 2".
  bool claim_judging(const std::string& who);
  bool claim_place_of_first(const std::string& who);
  bool claim_report(const std::string& who);
  bool is_report_claimed();

  // A rank's record is where records are kept.
  void add_record(uint32_t rank);
  bool has_record(uint32_t rank);
  int64_t num_records();
  // A rank will not use the store again.
  void leave();
  int64_t num_left();

  // The rank whose error, before the first step, all end with: one alone.
  void set_early_failure(uint32_t rank);
  std::optional<uint32_t> early_failure();

  // The folder of the run, for who has not made it.
  void set_folder(const std::string& folder);
  std::string folder();  // "" if there is none

  // The last of all ranks; their ages are not known from here.
  std::vector<KnownRank> ranks(uint32_t world_size);

 private:
  bool claim(const char* key, const std::string& who);
  Store& store_;
};

// The record of a rank that could not write its own.
RankRecord record_of_lost(const KnownRank& known,
                          uint32_t world_size,
                          const RankFailure& first,
                          const std::string& written_by);

}  // namespace tenon
