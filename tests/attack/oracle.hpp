// SPDX-License-Identifier: Apache-2.0
//
// What is true of every run: its exit status is documented, it does not blame the host, and what it
// computes is the same to the bit, whatever happened in between.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/attack/child.hpp"

namespace tenon {

// Returns "" if an ended process of the host may have ended so; else what is wrong. `status` is
// null if it did not end in time.
std::string bad_ending(const std::optional<int>& status, const std::string& log);

// Runs an action that needs no plugins, on a path: "--verify", "--inspect".
struct Ended;
Ended act_on(const std::string& action,
             const std::filesystem::path& path,
             const std::filesystem::path& log);

// The first "[area.id]" of a log; "" if there is none.
std::string error_id_of(const std::string& log);

enum class Metrics { kCompare, kIgnore };

// Returns "" if the newest checkpoints of two ended runs are equal in each parameter, optimizer
// state, table and number, and so are their metrics; else the first difference. Speeds and times
// are not compared.
std::string run_difference(const std::filesystem::path& run_a,
                           const std::filesystem::path& run_b,
                           Metrics metrics = Metrics::kCompare);

// The names of a run's checkpoints, the newest last.
std::vector<std::string> checkpoint_names(const std::filesystem::path& run);

// Recipes that the attacks train: a language model and a classification with tables. They save
// every two steps.
struct AttackedRecipe {
  std::string name;
  std::string text;
};
const std::vector<AttackedRecipe>& attacked_recipes();

// The words of a run of that recipe.
std::vector<std::string> run_words(const std::filesystem::path& recipe,
                                   const std::filesystem::path& run,
                                   int num_ranks,
                                   const std::vector<std::string>& more = {});

// Runs the host until it has ended, for at most two minutes.
struct Ended {
  std::optional<int> status;
  std::string log;
  std::string command;
  std::uint64_t peak_bytes = 0;
};
Ended run_to_end(const std::vector<std::string>& words,
                 const std::filesystem::path& log,
                 const ChildOptions& options = {});

}  // namespace tenon
