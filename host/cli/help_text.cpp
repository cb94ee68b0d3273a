// SPDX-License-Identifier: Apache-2.0
#include "host/cli/help_text.hpp"

#include "host/cli/action.hpp"

#include <cstddef>
#include <sstream>
#include <string_view>
#include <vector>

namespace tenon {
namespace {

constexpr std::size_t kTextColumn = 28;

constexpr std::string_view kPurpose =
    "Trains the model that a recipe describes. The model, the data, the loss, the optimizer and "
    "all\n"
    "other components are plugins. The recipe names them; Tenon finds them in the plugin "
    "folders.\n";

constexpr std::string_view kEnvironment =
    "Environment:\n"
    "  TENON_PLUGIN_PATH         more plugin folders, separated by colons\n"
    "  TENON_VET_TIMEOUT_S       seconds until loading a plugin times out; default 10\n";

constexpr std::string_view kExitStatus =
    "Exit status:\n"
    "   0  success, also if a hook stopped training early\n"
    "   1  --trace-diff or --diff found a difference\n"
    "   2  invalid command line, or a folder on it cannot be used\n"
    "   3  invalid recipe\n"
    "   4  a plugin failed before the first step, or a check of --check-plugin\n"
    "   5  the run failed after its first step\n"
    "   6  the policy for non-finite updates ended the run\n"
    "  75  stopped on request before the end: a signal, the kill switch or exit_at_step\n";

std::string lines_of(const Option& option, std::size_t indent) {
  std::string start(indent, ' ');
  start += option.name == "help" ? "-h, --help" : "--" + std::string(option.name);
  start += option.value.empty() ? "" : " " + std::string(option.value);
  std::istringstream help{std::string(option.help)};
  std::string text;
  for (std::string line; std::getline(help, line);) {
    start.resize(kTextColumn, ' ');
    text += start + line + "\n";
    start.clear();
  }
  return text;
}

// True if training has the same option with the same meaning.
bool is_of_training(const Option& option) {
  const Option* const same = kTrainAction.find_option(option.name);
  return same != nullptr && same->help == option.help;
}

// The help of an action: its own options in full, and the names of options shared with training.
std::string section_of(const Action& action) {
  constexpr std::size_t kActionIndent = 2;
  constexpr std::size_t kOptionIndent = 4;
  constexpr std::size_t kLongestLine = 96;
  std::string text = lines_of(action.option, kActionIndent);
  const std::string start = std::string(kOptionIndent, ' ') + "also ";
  std::string shared = start;
  std::size_t line_begin = 0;
  for (const Option& option : action.options) {
    if (!is_of_training(option)) {
      text += lines_of(option, kOptionIndent);
      continue;
    }
    const std::string name = "--" + std::string(option.name);
    if (shared.size() - line_begin + name.size() > kLongestLine) {
      shared.back() = '\n';
      line_begin = shared.size();
      shared += std::string(start.size(), ' ');
    }
    shared += name + " ";
  }
  if (shared != start) {
    shared.back() = '\n';
    text += shared;
  }
  return text;
}

}  // namespace

std::string usage_line(const std::string& program) {
  return "usage: " + program + " --recipe FILE [--plugin-dir DIR]... [--set PATH=VALUE]...";
}

std::string help_text(const std::string& program) {
  std::string text = usage_line(program) + "\n       " + program + " ACTION [OPTION]...\n\n";
  text += kPurpose;
  text += "\nOptions of training:\n";
  for (const Option& option : kTrainAction.options) {
    text += lines_of(option, 2);
  }
  text += "\nActions other than training, and their options:\n";
  for (const Action* const action : all_actions()) {
    text += action != &kTrainAction ? section_of(*action) : "";
  }
  text += "\n";
  text += kEnvironment;
  text += "\n";
  text += kExitStatus;
  return text;
}

}  // namespace tenon
