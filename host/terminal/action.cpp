// SPDX-License-Identifier: Apache-2.0
#include "host/terminal/action.hpp"

#include <algorithm>

namespace tenon {

const Option* Action::find_option(std::string_view name) const {
  if (name == option.name) {
    return &option;
  }
  const auto found = std::ranges::find(options, name, &Option::name);
  return found != options.end() ? &*found : nullptr;
}

bool Action::shares(const Option& other) const {
  const Option* const same = find_option(other.name);
  return same != nullptr && same->help == other.help;
}

const Action* find_verb(ActionTable actions, std::string_view verb) {
  const auto found = std::ranges::find(actions, verb, &Action::verb);
  return found != actions.end() ? *found : nullptr;
}

std::vector<Option> options_of(ActionTable actions) {
  std::vector<Option> all;
  const auto add = [&all](const Option& option) {
    if (!option.name.empty() && std::ranges::find(all, option.name, &Option::name) == all.end()) {
      all.push_back(option);
    }
  };
  for (const Action* const action : actions) {
    add(action->option);
    std::ranges::for_each(action->options, add);
  }
  return all;
}

}  // namespace tenon
