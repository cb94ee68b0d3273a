// SPDX-License-Identifier: Apache-2.0
#include "host/cli/all_actions.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("each action can run, and its own option tells it from the others", "[cli]") {
  std::set<std::string> names;
  for (const Action* const action : all_actions()) {
    const std::string name(action->option.name);
    CAPTURE(name);
    CHECK(action->run != nullptr);
    CHECK((action->read != nullptr || action->options.empty()));
    CHECK(names.insert(name).second);
  }
  CHECK(all_actions().front() == &kTrainAction);
  std::set<std::string> verbs;
  for (const Action* const action : all_actions()) {
    CHECK(find_verb(all_actions(), action->verb) == action);
    CHECK(verbs.insert(std::string(action->verb)).second);
  }
  CHECK(find_verb(all_actions(), "") == nullptr);
  CHECK(kTrainAction.option.name.empty());
}

TEST_CASE("an option takes as many values, and as often, in each action that has it", "[cli]") {
  std::map<std::string, Option> first;
  for (const Action* const action : all_actions()) {
    std::set<std::string> names;
    for (const Option& option : action->options) {
      const std::string name(option.name);
      CAPTURE(std::string(action->option.name), name);
      CHECK(names.insert(name).second);
      const Option& other = first.emplace(name, option).first->second;
      CHECK(option.num_values() == other.num_values());
      CHECK(option.repeat == other.repeat);
    }
  }
}

TEST_CASE("the help of an option fits beside its name", "[cli]") {
  for (const Option& option : options_of(all_actions())) {
    CAPTURE(std::string(option.name));
    CHECK_FALSE(option.help.empty());
    std::istringstream help{std::string(option.help)};
    for (std::string line; std::getline(help, line);) {
      CHECK(line.size() <= 72);
    }
  }
}

TEST_CASE("an action finds its own option and those of its table only", "[cli]") {
  CHECK(kInspectAction.find_option("inspect") == &kInspectAction.option);
  CHECK(kInspectAction.find_option("json") != nullptr);
  CHECK(kInspectAction.find_option("recipe") == nullptr);
}

}  // namespace tenon
