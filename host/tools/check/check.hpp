// SPDX-License-Identifier: Apache-2.0
//
// A check of a plugin: its name, what a good plugin does, and the function that finds out. The
// table of all checks (check_table.hpp) is the specification of a plugin in executable form.
// Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

class Subject;

enum class CheckOutcome { kPassed, kFailed, kSkipped };

// "passed", "failed" or "skipped".
std::string_view outcome_name(CheckOutcome outcome);

struct CheckResult {
  CheckOutcome outcome = CheckOutcome::kPassed;
  // What was found: one line for each problem of a failed check, the reason of a skipped one, or a
  // remark about a passed one.
  std::vector<std::string> found = {};
  std::string fix = {};                  // "" for the check's own
  std::vector<std::string> frames = {};  // of a crash, innermost first
};

inline CheckResult passed(std::string remark = {}) {
  CheckResult result;
  if (!remark.empty()) {
    result.found.push_back(std::move(remark));
  }
  return result;
}
inline CheckResult failed(std::string found, std::string fix = {}) {
  return {.outcome = CheckOutcome::kFailed, .found = {std::move(found)}, .fix = std::move(fix)};
}
inline CheckResult skipped(std::string reason) {
  return {.outcome = CheckOutcome::kSkipped, .found = {std::move(reason)}};
}

// Where a check runs. Its time limit depends on this.
enum class CheckStage {
  kFile,   // in this process: nothing of the plugin runs
  kLoad,   // in a child process that loads the plugin
  kCalls,  // in a child process that calls the plugin's components
  kRuns    // in a child process that starts the program
};

struct Check {
  std::string_view name;  // "static.one_export"; the group comes before the period
  std::string_view rule;  // what a good plugin does, in one sentence
  std::string_view fix;   // what to do if it does not
  CheckStage stage = CheckStage::kFile;
  std::string_view needs = {};  // a check that must have passed; "" for none
  CheckResult (*run)(Subject& subject) = nullptr;

  std::string_view group() const { return name.substr(0, name.find('.')); }
};

// What became of a check.
struct CheckedRule {
  const Check* check;
  CheckResult result;
};

}  // namespace tenon
