// SPDX-License-Identifier: Apache-2.0
//
// The folder `errors` of a run folder: a record of each rank, and the report, of a run of many
// ranks that failed. Invariants: a file is there wholly or not at all; nothing here throws, since a
// run that fails is not to fail of that.
// Threads: any.
#pragma once

#include "host/distributed/failures/failure_report.hpp"

#include <string>

namespace tenon {

class RankRecords {
 public:
  // `run_dir` may be "": there is no folder yet, and nothing is kept.
  explicit RankRecords(const std::string& run_dir);

  // "runs/x/errors", or "".
  const std::string& folder() const { return folder_; }
  // What ranks that were started before these have left becomes errors-1, errors-2, ...: it stays,
  // and is not taken for these ranks'.
  void put_aside() const;
  // errors/rank-N.json. What cannot be written is told in the log.
  void write(const RankRecord& record) const;
  // errors/report.txt.
  void write_report(const std::string& text) const;
  // summary.json of the run, where no rank was left to write it: the reason, and the exit code.
  void write_summary_if_missing(const std::string& reason, int exit_code) const;
  // True for the first who asks, of all processes that share the folder; without a folder for all.
  bool claim_report() const;

 private:
  std::string folder_;
};

}  // namespace tenon
