// SPDX-License-Identifier: Apache-2.0
#include "host/cli/help_text.hpp"

#include "host/cli/all_actions.hpp"
#include "host/terminal/help_notes.hpp"

#include <cstddef>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr std::size_t kTextColumn = 28;

// An option with its help. The option of an action comes after its verb.
std::string lines_of(const Option& option, std::size_t indent, std::string_view verb = "") {
  std::string start(indent, ' ');
  start += verb.empty() ? "" : std::string(verb) + ", ";
  start += option.name == "help" ? "-h, --help" : "--" + std::string(option.name);
  start += option.value.empty() ? "" : " " + std::string(option.value);
  std::istringstream help{std::string(option.help)};
  std::string text;
  if (start.size() >= kTextColumn) {
    text = std::exchange(start, "") + "\n";
  }
  for (std::string line; std::getline(help, line);) {
    start.resize(kTextColumn, ' ');
    text += start + line + "\n";
    start.clear();
  }
  return text;
}

// The help of an action: its own options in full, and the names of options shared with training.
std::string section_of(const Action& action) {
  constexpr std::size_t kActionIndent = 2;
  constexpr std::size_t kOptionIndent = 4;
  constexpr std::size_t kLongestLine = 96;
  std::string text = lines_of(action.option, kActionIndent, action.verb);
  const std::string start = std::string(kOptionIndent, ' ') + "also ";
  std::string shared = start;
  std::size_t line_begin = 0;
  for (const Option& option : action.options) {
    if (!kTrainAction.shares(option)) {
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
  std::string text =
      usage_line(program) + "\n       " + program + " VERB [VALUE]... [OPTION]...\n\n";
  text += kPurpose;
  text += "\nOptions of training, the default verb train:\n";
  for (const Option& option : kTrainAction.options) {
    text += lines_of(option, 2);
  }
  text += "\nOther verbs, each followed by the option that means the same:\n";
  for (const Action* const action : all_actions()) {
    text += action != &kTrainAction ? section_of(*action) : "";
  }
  text += "\nEnvironment:\n";
  for (const HelpNote& note : kEnvironmentNotes) {
    std::string line = "  " + std::string(note.name);
    if (line.size() >= kTextColumn) {
      text += std::exchange(line, "") + "\n";
    }
    line.resize(kTextColumn, ' ');
    text += line + std::string(note.text) + "\n";
  }
  text += "\nExit status:\n";
  for (const HelpNote& note : kExitStatusNotes) {
    constexpr std::size_t kNumberWidth = 4;
    text += std::string(kNumberWidth - note.name.size(), ' ') + std::string(note.name) + "  " +
            std::string(note.text) + "\n";
  }
  return text;
}

}  // namespace tenon
