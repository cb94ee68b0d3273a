// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/check_report.hpp"

#include "host/text/formatted.hpp"
#include "host/tools/check/check_table.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

namespace tenon {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLineWidth = 100;
constexpr std::size_t kOutcomeWidth = 9;

// The columns of a line: two spaces, the outcome, the name, and two spaces before the text.
std::size_t name_width() {
  std::size_t width = 0;
  for (const Check& check : all_checks()) {
    width = std::max(width, check.name.size());
  }
  return width + 2;
}

std::string padded(std::string_view text, std::size_t width) {
  std::string result(text);
  result.resize(std::max(width, result.size()), ' ');
  return result;
}

// Breaks a text into lines of at most the line width, each after `indent` spaces. The first line
// continues a text of that length. Words that are too long stay whole.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string result;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t space = text.find_first_of(" \n");
    const std::string_view word = text.substr(0, space);
    const bool is_first = column == indent;
    if (!is_first && column + 1 + word.size() > kLineWidth) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return result;
}

// "found: ..." below the column of rules.
std::string labelled(std::string_view label, std::string_view text) {
  const std::size_t indent = 2 + kOutcomeWidth;
  const std::string start = std::string(label) + ": ";
  return std::string(indent, ' ') + start + wrapped(text, indent + start.size()) + "\n";
}

std::string fix_of(const CheckedRule& rule) {
  return rule.result.fix.empty() ? std::string(rule.check->fix) : rule.result.fix;
}

}  // namespace

std::size_t count_of(std::span<const CheckedRule> rules, CheckOutcome outcome) {
  return static_cast<std::size_t>(std::ranges::count(
      rules, outcome, [](const CheckedRule& rule) { return rule.result.outcome; }));
}

std::string report_start(const CheckRequest& request,
                         const PluginInfo& info,
                         std::size_t num_checks) {
  return formatted("{}: {} checks, seed {}\n", info.describe(), num_checks, request.seed);
}

std::string report_lines(const CheckedRule& rule, const CheckedRule* previous) {
  const Check& check = *rule.check;
  std::string text;
  if (previous == nullptr || previous->check->group() != check.group()) {
    text += "\n" + std::string(check.group()) + "\n";
  }
  const bool is_failed = rule.result.outcome == CheckOutcome::kFailed;
  text += "  " + padded(is_failed ? "FAILED" : outcome_name(rule.result.outcome), kOutcomeWidth) +
          padded(check.name, name_width()) + wrapped(check.rule, 2 + kOutcomeWidth + name_width()) +
          "\n";
  const std::string_view label = is_failed                                       ? "found"
                                 : rule.result.outcome == CheckOutcome::kSkipped ? "reason"
                                                                                 : "note";
  for (const std::string& found : rule.result.found) {
    text += labelled(label, found);
  }
  for (const std::string& frame : rule.result.frames) {
    text += std::string(4 + kOutcomeWidth, ' ') + frame + "\n";
  }
  if (is_failed) {
    text += labelled("fix", fix_of(rule));
  }
  return text;
}

std::string report_end(std::span<const CheckedRule> rules) {
  return formatted("\n{} passed, {} failed, {} skipped\n",
                   count_of(rules, CheckOutcome::kPassed),
                   count_of(rules, CheckOutcome::kFailed),
                   count_of(rules, CheckOutcome::kSkipped));
}

std::string report_json(const CheckRequest& request,
                        const PluginInfo& info,
                        std::span<const CheckedRule> rules) {
  ordered_json report;
  report["file"] = info.file;
  report["id"] = info.manifest.id;
  report["version"] = info.manifest.version;
  report["lane"] = info.manifest.lane;
  report["seed"] = request.seed;
  report["recipe"] = request.recipe;
  report["passed"] = count_of(rules, CheckOutcome::kPassed);
  report["failed"] = count_of(rules, CheckOutcome::kFailed);
  report["skipped"] = count_of(rules, CheckOutcome::kSkipped);
  report["checks"] = ordered_json::array();
  for (const CheckedRule& rule : rules) {
    ordered_json entry;
    entry["name"] = rule.check->name;
    entry["rule"] = rule.check->rule;
    entry["outcome"] = outcome_name(rule.result.outcome);
    entry["found"] = rule.result.found;
    if (rule.result.outcome == CheckOutcome::kFailed) {
      entry["fix"] = fix_of(rule);
      entry["frames"] = rule.result.frames;
    }
    report["checks"].push_back(std::move(entry));
  }
  return report.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string checks_text() {
  std::string text;
  std::string_view group;
  for (const Check& check : all_checks()) {
    if (check.group() != group) {
      group = check.group();
      text += (text.empty() ? "" : "\n") + std::string(group) + "\n";
    }
    text += "  " + padded(check.name, name_width()) + wrapped(check.rule, 2 + name_width()) + "\n";
  }
  return text;
}

std::string checks_json() {
  ordered_json checks = ordered_json::array();
  for (const Check& check : all_checks()) {
    ordered_json entry;
    entry["name"] = check.name;
    entry["rule"] = check.rule;
    entry["fix"] = check.fix;
    entry["needs"] = check.needs;
    checks.push_back(std::move(entry));
  }
  return checks.dump(2) + "\n";
}

std::string checks_markdown() {
  std::string text = "| check | a good plugin | fix |\n|---|---|---|\n";
  for (const Check& check : all_checks()) {
    text += formatted("| `{}` | {} | {} |\n", check.name, check.rule, check.fix);
  }
  return text;
}

}  // namespace tenon
