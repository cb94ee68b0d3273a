// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/findings.hpp"

#include "host/text/formatted.hpp"

namespace tenon {
namespace {

// A component with one mistake can cause many problems.
constexpr std::size_t kMaxProblems = 10;
constexpr std::size_t kMaxProblemBytes = 600;

}  // namespace

void Findings::add_problem(std::string problem) {
  if (problem.size() > kMaxProblemBytes) {
    problem = problem.substr(0, kMaxProblemBytes) + "...";
  }
  problems_.push_back(std::move(problem));
}

CheckResult Findings::result(const std::string& none) const {
  if (!problems_.empty()) {
    CheckResult result{.outcome = CheckOutcome::kFailed, .found = problems_};
    if (problems_.size() > kMaxProblems) {
      result.found.resize(kMaxProblems);
      result.found.push_back(formatted("and {} more problems", problems_.size() - kMaxProblems));
    }
    return result;
  }
  if (num_examined_ == 0) {
    CheckResult result = skipped(none);
    if (!reasons_.empty()) {
      result.found = reasons_;
    }
    return result;
  }
  CheckResult result{.outcome = CheckOutcome::kPassed, .found = remarks_};
  result.found.insert(result.found.end(), reasons_.begin(), reasons_.end());
  return result;
}

}  // namespace tenon
