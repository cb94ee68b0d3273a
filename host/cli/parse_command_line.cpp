// SPDX-License-Identifier: Apache-2.0
#include "host/cli/parse_command_line.hpp"

#include "host/cli/all_actions.hpp"
#include "host/terminal/given_options.hpp"
#include "host/terminal/usage_error.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

namespace tenon {
namespace {

using Words = std::vector<std::string>;

std::string option_of(const Action& action) {
  return "--" + std::string(action.option.name);
}

// How the user selected the action, for messages: "plan" or "--plan".
std::string selection_of(const Action& action, const Action* by_verb) {
  return &action == by_verb ? std::string(action.verb) : option_of(action);
}

// True for a word that can only be a verb: neither a file, a folder nor a setting.
bool is_like_verb(const std::string& word) {
  const auto is_of_verb = [](char c) { return c == '-' || (c >= 'a' && c <= 'z'); };
  std::error_code ignored;
  return std::ranges::all_of(word, is_of_verb) && !std::filesystem::is_directory(word, ignored);
}

// Returns the action whose verb is the first argument; null if the first argument is an option, or
// no verb at all.
const Action* action_of_verb(const Words& arguments) {
  if (arguments.empty() || arguments.front().empty() || arguments.front().front() == '-') {
    return nullptr;
  }
  const std::string& word = arguments.front();
  const Action* const action = find_verb(all_actions(), word);
  if (action == nullptr && is_like_verb(word)) {
    Words verbs;
    for (const Action* const one : all_actions()) {
      verbs.emplace_back(one->verb);
    }
    fail_usage("there is no verb " + word + hint_of(word, verbs, "--help lists all verbs"));
  }
  return action;
}

// Replaces the verb by its option: "plan 8" by "--plan 8". So both mean the same from here on.
Words with_option_for_verb(Words arguments, const Action& action) {
  const std::string verb(action.verb);
  if (action.option.name.empty()) {
    arguments.erase(arguments.begin());
    return arguments;
  }
  const std::string option = option_of(action);
  for (const std::string& argument : arguments) {
    if (argument.substr(0, argument.find('=')) == option) {
      fail_usage(verb + " and " + option + " mean the same; remove " + option);
    }
  }
  const bool asks_for_help = std::ranges::find(arguments, "--help") != arguments.end() ||
                             std::ranges::find(arguments, "-h") != arguments.end();
  for (std::size_t i = 1; i <= action.option.num_values(); ++i) {
    if (i >= arguments.size() || arguments[i].starts_with("-")) {
      if (asks_for_help) {
        arguments.erase(arguments.begin());
        return arguments;
      }
      fail_usage(verb + " needs " + (action.option.num_values() > 1 ? "values: " : "a value: ") +
                 verb + " " + std::string(action.option.value));
    }
  }
  arguments.front() = option;
  return arguments;
}

const Action& choose_action(const GivenOptions& given, const Action* by_verb) {
  if (given.has(kPrintHelpAction.option.name)) {
    return kPrintHelpAction;  // also with other options: the user may need help with them
  }
  const Action* chosen = by_verb;
  for (const Action* const action : all_actions()) {
    if (action == &kTrainAction || action == by_verb || !given.has(action->option.name)) {
      continue;
    }
    if (chosen != nullptr) {
      fail_usage(selection_of(*chosen, by_verb) + " and " + option_of(*action) +
                 " contradict each other; give one of them");
    }
    chosen = action;
  }
  return chosen != nullptr ? *chosen : kTrainAction;
}

// The actions other than training that take the option: "--table or --export".
std::string takers_of(const std::string& name) {
  std::vector<std::string> takers;
  for (const Action* const action : all_actions()) {
    if (action != &kTrainAction && action->find_option(name) != nullptr) {
      takers.push_back(option_of(*action));
    }
  }
  std::string text;
  for (std::size_t i = 0; i < takers.size(); ++i) {
    text += i == 0 ? "" : i + 1 == takers.size() ? " or " : ", ";
    text += takers[i];
  }
  return text;
}

// Rejects options without effect on the action.
void check_effects(const GivenOptions& given, const Action& action, const Action* by_verb) {
  for (const std::string& name : given.names()) {
    if (action.find_option(name) != nullptr) {
      continue;
    }
    if (&action == &kTrainAction) {
      fail_usage("--" + name + " has no effect on a run; it goes with " + takers_of(name));
    }
    fail_usage("--" + name + " has no effect with " + selection_of(action, by_verb) +
               "; remove one of them");
  }
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  const std::vector<Option> known = options_of(all_actions());
  const Action* const by_verb = action_of_verb(arguments);
  const GivenOptions given(
      by_verb != nullptr ? with_option_for_verb(arguments, *by_verb) : arguments, known);
  const Action& action = choose_action(given, by_verb);
  CommandLine line{.action = &action};
  if (&action != &kPrintHelpAction) {
    check_effects(given, action, by_verb);
  }
  if (action.read != nullptr) {
    action.read(given, line);
  }
  return line;
}

}  // namespace tenon
