// SPDX-License-Identifier: Apache-2.0
#include "host/tools/docs/man_page.hpp"

#include "host/terminal/help_notes.hpp"

#include <string_view>
#include <tenon_build.hpp>

namespace tenon {
namespace {

// Returns text for a page: one line, each special character escaped.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c == '\n' ? ' ' : c;
    }
  }
  while (result.ends_with(' ')) {
    result.pop_back();
  }
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

std::string item(const std::string& head, std::string_view text) {
  return ".TP\n" + head + "\n" + roff(text) + "\n";
}

// An option with its help. The option of an action comes after its verb.
std::string entry(const Option& option, std::string_view verb = "") {
  std::string head = verb.empty() ? "" : "\\fB" + roff(verb) + "\\fR, ";
  head += option.name == "help" ? "\\fB\\-h\\fR, " : "";
  head += "\\fB\\-\\-" + roff(option.name) + "\\fR";
  head += option.value.empty() ? "" : " \\fI" + roff(option.value) + "\\fR";
  return item(head, option.help);
}

std::string action_entry(const Action& action, const Action& training) {
  std::string text = entry(action.option, action.verb);
  std::string own;
  std::string shared;
  for (const Option& option : action.options) {
    if (training.shares(option)) {
      shared += (shared.empty() ? "" : ", ") + ("\\fB\\-\\-" + roff(option.name) + "\\fR");
    } else {
      own += entry(option);
    }
  }
  if (!own.empty() || !shared.empty()) {
    text += ".RS\n" + own;
    text += shared.empty() ? "" : ".PP\nOptions as for training: " + shared + ".\n";
    text += ".RE\n";
  }
  return text;
}

constexpr std::string_view kFiles = R"(.SH FILES
.TP
\fI../lib/tenon/plugins\fR
the plugins of this installation, seen from the folder of the program
.TP
\fI../share/tenon/recipes\fR
recipes to start from
.TP
\fI$XDG_CACHE_HOME/tenon/vetted.json\fR
results of loading plugins in a child process
.TP
\fIruns\fR
run folders, in the current folder
.SH EXAMPLES
.nf
tenon \-\-recipe recipe.json \-\-set train.steps=50
tenon validate \-\-recipe recipe.json
tenon list\-plugins
tenon describe loss:cross_entropy
tenon explain recipe.unknown_key
.fi
)";

}  // namespace

std::string man_page(ActionTable actions) {
  std::string text = ".TH TENON 1 \"\" \"Tenon " + std::string(kVersion) + "\" \"User Commands\"\n";
  text += ".SH NAME\ntenon \\- train the model that a recipe describes\n";
  text +=
      ".SH SYNOPSIS\n\\fBtenon\\fR \\fB\\-\\-recipe\\fR \\fIFILE\\fR [\\fIOPTION\\fR]...\n.br\n";
  text += "\\fBtenon\\fR \\fIVERB\\fR [\\fIVALUE\\fR]... [\\fIOPTION\\fR]...\n";
  text += ".SH DESCRIPTION\n" + roff(kPurpose) + "\n";
  text += ".SH OPTIONS\nOptions of training, the default verb train:\n";
  for (const Option& option : actions.front()->options) {
    text += entry(option);
  }
  text += ".SH VERBS\nOther verbs, each followed by the option that means the same:\n";
  for (const Action* const action : actions) {
    text += action == actions.front() ? "" : action_entry(*action, *actions.front());
  }
  text += ".SH ENVIRONMENT\n";
  for (const HelpNote& note : kEnvironmentNotes) {
    text += item("\\fB" + roff(note.name) + "\\fR", note.text);
  }
  text += ".SH \"EXIT STATUS\"\n";
  for (const HelpNote& note : kExitStatusNotes) {
    text += item("\\fB" + roff(note.name) + "\\fR", note.text);
  }
  text += kFiles;
  return text;
}

}  // namespace tenon
