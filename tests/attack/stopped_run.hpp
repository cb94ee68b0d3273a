// SPDX-License-Identifier: Apache-2.0
//
// A run that was stopped in its middle, and the same run to its end: what the attacks on files
// damage a copy of, resume, and compare. Threads: one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/attack/attack.hpp"
#include "tests/attack/oracle.hpp"

namespace tenon {

class StoppedRun {
 public:
  // Trains both, in `folder`.
  // Errors   std::runtime_error if a run fails
  StoppedRun(const std::filesystem::path& folder, const AttackedRecipe& recipe, int num_ranks);

  const std::string& name() const { return name_; }
  const std::filesystem::path& stopped() const { return stopped_; }
  // The files of the stopped run, relative to it, sorted.
  const std::vector<std::string>& files() const { return files_; }

  // Resumes a run folder to its end.
  Ended resume(const std::filesystem::path& run, const std::filesystem::path& log) const;
  // As run_difference() to the run that was never stopped.
  std::string difference(const std::filesystem::path& run, Metrics metrics) const;

 private:
  std::string name_;
  std::filesystem::path recipe_;
  std::filesystem::path stopped_;
  std::filesystem::path whole_;
  int num_ranks_;
  std::vector<std::string> files_;
};

// One of each recipe, on one rank and on two; only the first `most` of them.
std::vector<StoppedRun> stopped_runs(const std::filesystem::path& folder, std::size_t most);

// Files of a run folder that no resumed run depends on. They have no checksum; a change costs no
// more than what they say: logs and metrics that people read, records that a start replaces.
bool is_only_read_by_people(const std::string& file);

}  // namespace tenon
