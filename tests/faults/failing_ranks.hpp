// SPDX-License-Identifier: Apache-2.0
//
// Runs the built program as several ranks of which one is made to fail, and reads what is left:
// exit codes, the report, the records, and processes that should not be there any more. Invariant:
// a run that does not end is ended, with all its processes.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {

// One rank, started by the variables of its environment.
struct FailingRank {
  std::vector<std::string> arguments = {};
  SubprocessOptions options = {};
  int open_files = 0;         // ulimit -n; 0: the test's own
  bool is_started = true;     // else it never comes
  std::string plugins = {};   // instead of the build's
  int seconds_to_live = 100;  // before it is ended
};

class FailingRanks {
 public:
  // By --launch.
  static FailingRanks launched(const std::string& recipe,
                               uint32_t num_ranks,
                               const SubprocessOptions& options = {});
  // By their environment, so that rank 0 keeps the store. `port` 0: a free one.
  static FailingRanks started(const std::string& recipe,
                              const std::vector<FailingRank>& ranks,
                              uint16_t port = 0);

  // Of the launcher, or of a rank.
  const SubprocessResult& result(size_t i = 0) const { return results_[i]; }
  std::vector<int> exit_codes() const;
  // What all of them printed.
  std::string text() const;
  // How often all of them printed a report.
  size_t num_reports() const;
  // True if the report says of each rank in which collective it was, or was last.
  bool names_collective_of_each() const;

  std::filesystem::path run_dir() const { return folder_->path() / "run"; }
  nlohmann::json record(uint32_t rank) const;
  nlohmann::json summary() const;
  // From the moment that the hook fail_at marked to the end of all; 0 if it marked none.
  double seconds_from_fault() const { return seconds_from_fault_; }
  // Processes of the run that are still there.
  std::vector<std::string> leftovers() const;
  uint16_t port() const { return port_; }

 private:
  FailingRanks() = default;
  std::vector<std::string> words(const std::string& recipe) const;
  void note_end(std::filesystem::file_time_type end);

  std::unique_ptr<ScratchFolder> folder_ = std::make_unique<ScratchFolder>();
  std::vector<SubprocessResult> results_;
  double seconds_from_fault_ = 0;
  uint16_t port_ = 0;
};

// A small classification recipe with short timeouts and the hook fail_at: its options, but for
// `mark`, in JSON. `patch` is merged into it at last.
std::string failing_recipe(const std::string& fail_at, const std::string& patch = "{}");

}  // namespace tenon
