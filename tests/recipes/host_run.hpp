// SPDX-License-Identifier: Apache-2.0
//
// Runs the built program on a recipe, with the first-party plugins and those of the tests, and
// reads what it leaves.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {

// Returns the words that start the host with all plugins, after `prefix`: a program that sets
// limits and runs the words that follow.
std::vector<std::string> host_command(std::vector<std::string> prefix = {});

// Runs the program with all plugins and `more` words; it is killed after two minutes.
SubprocessResult run_host(const std::vector<std::string>& more,
                          const SubprocessOptions& options = {});
// The same with a recipe and a run folder, on `num_ranks` ranks.
SubprocessResult run_host(const std::filesystem::path& recipe,
                          const std::filesystem::path& run_dir,
                          int num_ranks = 1,
                          const std::vector<std::string>& more = {},
                          const SubprocessOptions& options = {});

class HostRun {
 public:
  // `recipe` is JSON text; it is written into a folder of its own, and the run folder is made
  // beside it.
  explicit HostRun(const std::string& recipe,
                   const std::vector<std::string>& arguments = {},
                   const SubprocessOptions& options = {},
                   const std::filesystem::path& program = {});  // the host, where it is not given

  const SubprocessResult& result() const { return result_; }
  std::filesystem::path run_dir() const { return folder_.path() / "run"; }
  std::filesystem::path folder() const { return folder_.path(); }

  // The last line it printed, without the commands that it suggests: how the run ended.
  std::string last_line() const;
  std::string file(const std::string& name) const;
  std::vector<nlohmann::json> metrics() const;
  nlohmann::json summary() const;
  // The summary that another process writes after the program has ended: waits for it for up to ten
  // seconds.
  nlohmann::json awaited_summary() const;

 private:
  ScratchFolder folder_;
  SubprocessResult result_;
};

// The records of a metrics.jsonl, without the figures that depend on the clock.
std::vector<nlohmann::json> metric_records(const std::string& text);
// Those of a run folder, also without what depends on how memory has grown: the figures that two
// equal runs have in common, to the bit.
std::vector<nlohmann::json> records_of(const std::filesystem::path& run_dir);

// A recipe changed by a JSON merge patch.
std::string patched(const std::string& recipe, const std::string& patch);

// Recipes that a patch changes: a small classification over the test dataset `windows`;
std::string small_recipe(const std::string& patch = "{}");
// the same of eight samples a step, on up to four ranks, with a schedule, a metric of training and
// evaluations;
std::string busy_recipe(const std::string& patch = "{}");
// what makes the model of either look rows up in tables;
inline constexpr char kRowsOfTables[] =
    R"({"model": {"type": "lookup_net", "options": null}, "tables": {
      "*": {"optimizer": {"type": "adam", "options": {"lr": 0.05}}},
      "sample_id": {"evict": {"unseen_steps": 4}}}})";
// and a small language model, of four samples a step.
std::string small_language_recipe(const std::string& patch = "{}");

}  // namespace tenon
