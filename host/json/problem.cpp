// SPDX-License-Identifier: Apache-2.0

#include "host/json/problem.hpp"

#include "host/error/assert.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

// Maximum number of problems shown; with more, the first problems would scroll off the terminal.
constexpr std::size_t kMaxRendered = 50;

std::vector<Problem> sorted(std::vector<Problem> problems) {
  std::ranges::stable_sort(
      problems, {}, [](const Problem& problem) { return problem.place.sort_key(); });
  return problems;
}

std::string id_of(const std::vector<Problem>& problems) {
  TENON_ASSERT(!problems.empty(), "an error without a problem");
  return problems.size() == 1 ? problems.front().id : "recipe.invalid";
}

std::string report_of(const std::vector<Problem>& problems, std::string_view recipe) {
  const char* const at_least = problems.size() >= ProblemList::kMaxKept ? "at least " : "";
  std::string report;
  for (std::size_t i = 0; i < std::min(problems.size(), kMaxRendered); ++i) {
    report += render(problems[i]) + "\n";
  }
  if (problems.size() > kMaxRendered) {
    report += formatted("... and {}{} more\n", at_least, problems.size() - kMaxRendered);
  }
  return report + formatted("{}{} in {}; nothing was started",
                            at_least,
                            counted(problems.size(), "error"),
                            recipe);
}

}  // namespace

std::string render(const Problem& problem) {
  constexpr std::string_view kIndent = "\n    ";
  std::string text = problem.place.text() + ": ";
  if (!problem.pointer.empty()) {
    text += problem.pointer + ": ";
  }
  text += problem.what + " [" + problem.id + "]";
  if (!problem.expected.empty()) {
    text.append(kIndent).append("expected ").append(problem.expected);
  }
  if (!problem.found.empty()) {
    text.append(kIndent).append("found: ").append(problem.found);
    text += problem.hint.empty() ? "" : "; " + problem.hint;
  } else if (!problem.hint.empty()) {
    text.append(kIndent).append(problem.hint);
  }
  if (!problem.note.empty()) {
    text.append(kIndent).append(problem.note);
  }
  return text;
}

void ProblemList::push_back(Problem problem) {
  is_last_dropped_ = is_full();
  if (is_last_dropped_) {
    ++num_dropped_;
    dropped_ = std::move(problem);
  } else {
    kept_.push_back(std::move(problem));
  }
}

void ProblemList::append(ProblemList other) {
  for (Problem& problem : other.kept_) {
    push_back(std::move(problem));
  }
  num_dropped_ += other.num_dropped_;
}

RecipeErrors::RecipeErrors(const std::string& recipe, const ProblemList& problems)
    : RecipeErrors(sorted(problems.kept()), std::string_view(recipe)) {}

RecipeErrors::RecipeErrors(std::vector<Problem> problems, std::string_view recipe)
    : Error(id_of(problems), report_of(problems, recipe)), problems_(std::move(problems)) {}

}  // namespace tenon
