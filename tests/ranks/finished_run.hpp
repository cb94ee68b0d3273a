// SPDX-License-Identifier: Apache-2.0
//
// What a run has come to, to be held against another one: all recorded figures, and the parameters
// that the hook keep_parameters of the tests wrote.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tenon {

using NamedValues = std::map<std::string, std::vector<double>>;

struct FinishedRun {
  std::vector<nlohmann::json> metrics;
  NamedValues parameters;
  std::string parameters_hash;
  int64_t samples;  // of training, over all resumes
};

// Runs a recipe on so many ranks, each a process; fails the test where it does not end with 0.
FinishedRun finished_run(const nlohmann::json& recipe, uint32_t num_ranks);

// What is in the folder of a run that has ended.
FinishedRun finished_in(const std::filesystem::path& run_dir);

// Bytes of tables depend on how many tables of how many ranks there are.
FinishedRun without_bytes(FinishedRun run);

// Equal records, figures to `bound` (relative where they are above 1).
void check_metrics(const FinishedRun& found, const FinishedRun& want, double bound);

// The largest difference of two elements.
double largest_difference(const NamedValues& found, const NamedValues& want);
// The norm of the difference over that of `want`.
double norm_difference(const NamedValues& found, const NamedValues& want);

}  // namespace tenon
