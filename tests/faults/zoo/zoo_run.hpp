// SPDX-License-Identifier: Apache-2.0
//
// Runs the program with a bad plugin, on one rank and on two, and checks how the run ends: the exit
// status, what stderr names, and summary.json.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/subprocess.hpp"

namespace tenon {

// What a run left.
struct ZooResult {
  int num_ranks = 1;
  SubprocessResult process;
  bool has_folder = false;                // the run folder exists
  std::optional<nlohmann::json> summary;  // null if there is none
  std::string logs;                       // log.txt and the logs of ranks
};

// What summary.json says.
enum class SummaryOf {
  kProcess,  // outcome and exit status of the process
  kRun,      // the run is done; the plugin does harm after that
  kEither
};

// A row of the zoo: a run with a bad plugin, and how it must end.
struct BadRun {
  std::string name;
  // Folders of plugins besides those of other tests, below the `tests` of the build folder.
  std::vector<std::string> folders = {};
  // Plugins of tests/support/zoo, which are copied into another plugin folder.
  std::vector<std::string> copies = {};
  std::string patch = "{}";  // of the recipe; the text "@RANK@" becomes the rank that misbehaves
  std::map<std::string, std::string> environment = {};

  std::vector<int> exit_codes = {};     // any of these; 0: the run is done
  std::vector<std::string> ids = {};    // stderr has any of these, in brackets
  std::string plugin = {};              // the id of the plugin
  std::string component = {};           // `hook "bad_hook"`; "": the plugin as a whole
  std::string function = {};            // named after the component
  std::vector<std::string> says = {};   // texts that stderr has
  uint64_t step = 0;                    // on stderr or in the summary; 0: none
  std::optional<int> rank_of_two = {};  // the rank that stderr names if there are two
  SummaryOf summary_of = SummaryOf::kProcess;
  double limit_s = 0;                               // how long the plugin may take
  bool is_crash = false;                            // sanitizers report it themselves
  std::function<void(const ZooResult&)> more = {};  // further checks
};

// Runs the rows on one rank and on two, two programs at a time, and checks each result. Of the rows
// it takes members (tests/support/members.hpp): two of each table in `./dev test`.
void check_zoo(const std::vector<BadRun>& rows);

// ---- rows of the plugin `misbehaves` (misbehaves/misbehaves.h) ----

// A component of a kind with a fault. `kind` is as in messages, "dataset" is `bad_map`, and
// "stream" is the dataset `bad_stream`.
//
// of_start: found before the first step, exit status 4. of_step: found in a step, exit status 5.
// Both name the component, and of two ranks rank 1, where it misbehaves. of_step names step 3 as
// well. finishes: the run is done, and nothing is named.
BadRun of_start(const std::string& kind,
                const std::string& fault,
                const std::vector<std::string>& ids,
                const std::vector<std::string>& says = {});
BadRun of_step(const std::string& kind,
               const std::string& fault,
               const std::vector<std::string>& ids,
               const std::vector<std::string>& says = {});
BadRun finishes(const std::string& kind, const std::string& fault);

// Changes a row.
BadRun in_function(const std::string& function, BadRun row);
BadRun crashing(BadRun row);
BadRun with_patch(const std::string& patch, BadRun row);
// It misbehaves on all ranks, and rank 0 is named: only that rank calls it.
BadRun of_rank_0(BadRun row);
// It misbehaves on all ranks, and no rank is named.
BadRun of_all_ranks(BadRun row);

// ---- families; each returns its rows ----

std::vector<BadRun> load_rows();
std::vector<BadRun> process_state_rows();
std::vector<BadRun> start_rows();
std::vector<BadRun> graph_rows();
std::vector<BadRun> result_rows();
std::vector<BadRun> handle_rows();
std::vector<BadRun> data_rows();
std::vector<BadRun> hook_rows();
std::vector<BadRun> undeclared_rows();
std::vector<BadRun> crash_rows();
std::vector<BadRun> hang_rows();
std::vector<BadRun> end_rows();

}  // namespace tenon
