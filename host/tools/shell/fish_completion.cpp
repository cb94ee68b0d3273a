// SPDX-License-Identifier: Apache-2.0
#include "host/tools/shell/fish_completion.hpp"

#include "host/tools/shell/option_values.hpp"

#include <algorithm>

namespace tenon {
namespace {

std::string fish_quoted(const std::string& text) {
  return "'" + escaped_text(text, "\\'") + "'";
}

// The condition under which an option is offered: "" for options of training and for actions.
std::string condition_of(ActionTable actions, const Option& option) {
  std::string condition;
  for (const Action* const action : actions) {
    if (action->option.name == option.name ||
        (action == actions.front() && action->find_option(option.name) != nullptr)) {
      return "";
    }
    if (action->find_option(option.name) != nullptr) {
      condition += (condition.empty() ? "" : "; or ") +
                   ("__fish_contains_opt " + std::string(action->option.name)) +
                   "; or __fish_seen_subcommand_from " + std::string(action->verb);
    }
  }
  return condition;
}

std::string argument_of(const std::vector<ValueForm>& forms) {
  if (forms.empty()) {
    return "";
  }
  const bool takes_file = std::ranges::any_of(
      forms, [](const ValueForm& form) { return form.takes_file || form.takes_folder; });
  std::string words = spaced(forms.front().words);
  if (!takes_file) {
    return words.empty() ? " -x" : " -x -a " + fish_quoted(words);
  }
  if (forms.size() == 1 && forms.front().takes_folder && !forms.front().takes_file) {
    return " -x -a '(__fish_complete_directories)'";
  }
  return words.empty() ? " -r -F" : " -r -F -a " + fish_quoted(words);
}

}  // namespace

std::string fish_completion(ActionTable actions) {
  std::string text =
      "# fish completion for tenon, printed by: tenon --print-completion fish\n"
      "complete -c tenon -f\n";
  for (const Action* const action : actions) {
    const std::string help =
        action->option.help.empty() ? "train, as without a verb" : short_help(action->option);
    text += "complete -c tenon -n __fish_use_subcommand -a " + std::string(action->verb) + " -d " +
            fish_quoted(help) + "\n";
  }
  for (const Option& option : options_of(actions)) {
    text += "complete -c tenon";
    const std::string condition = condition_of(actions, option);
    text += condition.empty() ? "" : " -n " + fish_quoted(condition);
    text += " -l " + std::string(option.name) + argument_of(value_forms(option));
    text += " -d " + fish_quoted(short_help(option)) + "\n";
  }
  return text;
}

}  // namespace tenon
