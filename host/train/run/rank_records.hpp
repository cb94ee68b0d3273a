// SPDX-License-Identifier: Apache-2.0
//
// The folder `errors` of a run folder. After a failed run of several ranks, it has the record of
// each rank and the report. Invariants: files are written atomically. No function throws, so that
// reporting a failure cannot cause a second failure.
// Threads: any.
#pragma once

#include "host/distributed/failures/failure_report.hpp"

#include <string>

namespace tenon {

enum class HasBegun { kNo, kYes };  // the first step of the run

// Returns the run folder for the records of a failure. Returns "" if the run leaves no folder, or
// if its folder was lost and may be that of another run now.
std::string folder_for_records(const std::string& run_dir,
                               const RankFailure& first,
                               HasBegun begun);

class RankRecords {
 public:
  // `run_dir` is "" before the run folder exists: no files are written.
  explicit RankRecords(const std::string& run_dir);

  // "runs/x/errors", or "".
  const std::string& folder() const { return folder_; }
  // Renames the folder of an earlier start to errors-1, errors-2, ..., so that its files are kept
  // and not mistaken for records of these ranks.
  void put_aside() const;
  // Writes errors/rank-N.json. Logs a warning if the file cannot be written.
  void write(const RankRecord& record) const;
  // Writes errors/report.txt.
  void write_report(const std::string& text) const;
  // Writes summary.json of the run, with reason and exit code, if no rank was left to write it.
  void write_summary_if_missing(const std::string& reason, int exit_code) const;
  // True for the first caller among all processes that share the folder. Also true if there is no
  // folder, or if it cannot be written.
  bool claim_report() const;

 private:
  std::string folder_;
};

}  // namespace tenon
