// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/checked/call_frame.hpp"
#include "host/plugin/checked/checked_calls.hpp"
#include "host/plugin/process_settings.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/subject.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace tenon {
namespace {

// Checks whose calls are repeated, whatever they find. They run in this process.
constexpr CheckResult (*kRepeated[])(Subject& subject) = {check_state_round_trip,
                                                          check_loss_results,
                                                          check_loss_gradients,
                                                          check_metric_values,
                                                          check_metric_merge,
                                                          check_metric_state,
                                                          check_optimizer_update,
                                                          check_dataset_reads,
                                                          check_model_results,
                                                          check_row_update,
                                                          check_feature_results,
                                                          check_hook_events,
                                                          check_sink_records,
                                                          check_storage_round_trip};

// Repeats the calls of other checks in the checking mode of calls, and returns what `reported` then
// returns.
CheckResult check_calls(Subject& subject,
                        const std::function<std::vector<std::string>()>& reported) {
  start_checking_calls();
  const CheckResult made = check_two_instances(subject);
  if (made.outcome == CheckOutcome::kSkipped) {
    return made;
  }
  for (const auto repeated : kRepeated) {
    static_cast<void>(repeated(subject));
  }
  std::vector<std::string> problems = reported();
  if (problems.empty()) {
    return passed();
  }
  // A problem of each call, with another number.
  constexpr std::size_t kMostShown = 5;
  problems.resize(std::min(problems.size(), kMostShown));
  return {.outcome = CheckOutcome::kFailed, .found = std::move(problems)};
}

}  // namespace

CheckResult check_call_handles(Subject& subject) {
  return check_calls(subject, [] { return reported_problems(CallRule::kHandles); });
}

CheckResult check_call_roles(Subject& subject) {
  return check_calls(subject, [] { return reported_problems(CallRule::kRoles); });
}

CheckResult check_call_settings(Subject& subject) {
  return check_calls(subject, restored_settings);
}

}  // namespace tenon
