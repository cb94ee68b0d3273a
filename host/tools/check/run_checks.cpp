// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/run_checks.hpp"

#include "host/tools/check/check_table.hpp"
#include "host/tools/check/temporary_folder.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

// Time limits, as multiples of that for loading.
constexpr int kCallLimits = 6;
constexpr int kRunLimits = 60;

std::chrono::milliseconds limit_of(const Check& check, const CheckRequest& request) {
  switch (check.stage) {
    case CheckStage::kRuns:
      return request.load_limit * kRunLimits;
    case CheckStage::kCalls:
      return request.load_limit * kCallLimits;
    default:
      return request.load_limit;
  }
}

CheckResult run_guarded(const Check& check, Subject& subject) {
  try {
    return check.run(subject);
  } catch (const Error& error) {
    return failed(error.message() + " [" + error.id() + "]");
  }
}

std::string text_of_result(const CheckResult& result) {
  const json answer = {{"outcome", static_cast<int>(result.outcome)},
                       {"found", result.found},
                       {"fix", result.fix},
                       {"frames", result.frames}};
  return answer.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Null if the text is not an answer: the plugin runs in the process that sends it.
std::optional<CheckResult> result_of_text(const std::string& text) {
  const json answer = json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    const auto outcome = static_cast<CheckOutcome>(answer.at("outcome").get<int>());
    if (outcome < CheckOutcome::kPassed || outcome > CheckOutcome::kSkipped) {
      return std::nullopt;
    }
    return CheckResult{.outcome = outcome,
                       .found = answer.at("found").get<std::vector<std::string>>(),
                       .fix = answer.at("fix").get<std::string>(),
                       .frames = answer.at("frames").get<std::vector<std::string>>()};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

CheckResult run_in_child(const Check& check, const CheckRequest& request, const PluginInfo& info) {
  const std::chrono::milliseconds limit = limit_of(check, request);
  WatchedChild child(
      [&](int socket, ChildNote& note) {
        std::array<char, 1> start;
        if (::recv(socket, start.data(), start.size(), 0) < 0) {
          return;
        }
        // Never destroyed: instances of the plugin may still be in use by its threads.
        auto* const subject = new Subject(request, info, &note);
        std::string text;
        try {
          text = text_of_result(run_guarded(check, *subject));
        } catch (...) {
          std::terminate();  // with the exception active, so that the output names it
        }
        text.resize(std::min(text.size(), kMaxAnswerBytes));
        (void)!::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
      },
      LogLevel::kError);
  const std::optional<std::string> answer = child.ask("?", limit);
  if (!answer) {
    return result_of_death(child, info, limit);
  }
  return result_of_text(*answer).value_or(
      failed("the plugin sent an answer in place of the host's"));
}

// Results of checks, which are run when they are first asked for.
class CheckResults {
 public:
  CheckResults(const CheckRequest& request, const PluginInfo& info)
      : request_(request), info_(info) {}

  const CheckResult& of(const Check& check) {
    const auto known = results_.find(check.name);
    return known != results_.end() ? known->second
                                   : results_.emplace(check.name, run(check)).first->second;
  }

 private:
  CheckResult run(const Check& check) {
    if (!check.needs.empty()) {
      const Check& needed = *find_checks(check.needs).front();
      if (of(needed).outcome == CheckOutcome::kFailed) {
        return skipped("it needs " + std::string(needed.name) + ", which has failed");
      }
      if (of(needed).outcome == CheckOutcome::kSkipped) {
        return of(needed);  // for the same reason
      }
    }
    if (check.stage != CheckStage::kFile) {
      return run_in_child(check, request_, info_);
    }
    Subject subject(request_, info_, nullptr);
    return run_guarded(check, subject);
  }

  const CheckRequest& request_;
  const PluginInfo& info_;
  std::map<std::string_view, CheckResult> results_;
};

}  // namespace

std::vector<CheckedRule> run_checks(const CheckRequest& request,
                                    const PluginInfo& info,
                                    std::span<const Check* const> checks,
                                    const std::function<void(const CheckedRule&)>& on_result) {
  std::optional<TemporaryFolder> runs;
  CheckRequest with_folder = request;
  if (!request.recipe.empty()) {
    with_folder.runs_folder = runs.emplace().path();
  }
  CheckResults results(with_folder, info);
  std::vector<CheckedRule> checked;
  for (const Check* const check : checks) {
    checked.push_back({check, results.of(*check)});
    on_result(checked.back());
  }
  return checked;
}

}  // namespace tenon
