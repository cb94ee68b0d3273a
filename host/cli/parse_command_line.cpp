// SPDX-License-Identifier: Apache-2.0
#include "host/cli/parse_command_line.hpp"

#include "host/cli/all_actions.hpp"
#include "host/terminal/given_options.hpp"
#include "host/terminal/usage_error.hpp"

namespace tenon {
namespace {

std::string option_of(const Action& action) {
  return "--" + std::string(action.option.name);
}

const Action& choose_action(const GivenOptions& given) {
  if (given.has(kPrintHelpAction.option.name)) {
    return kPrintHelpAction;  // also with other options: the user may need help with them
  }
  const Action* chosen = &kTrainAction;
  for (const Action* const action : all_actions()) {
    if (action == &kTrainAction || !given.has(action->option.name)) {
      continue;
    }
    if (chosen != &kTrainAction) {
      fail_usage(option_of(*chosen) + " and " + option_of(*action) +
                 " contradict each other; give one of them");
    }
    chosen = action;
  }
  return *chosen;
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
void check_effects(const GivenOptions& given, const Action& action) {
  for (const std::string& name : given.names()) {
    if (action.find_option(name) != nullptr) {
      continue;
    }
    if (&action == &kTrainAction) {
      fail_usage("--" + name + " has no effect on a run; it goes with " + takers_of(name));
    }
    fail_usage("--" + name + " has no effect with " + option_of(action) + "; remove one of them");
  }
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  const std::vector<Option> known = options_of(all_actions());
  const GivenOptions given(arguments, known);
  const Action& action = choose_action(given);
  CommandLine line{.action = &action};
  if (&action != &kPrintHelpAction) {
    check_effects(given, action);
  }
  if (action.read != nullptr) {
    action.read(given, line);
  }
  return line;
}

}  // namespace tenon
