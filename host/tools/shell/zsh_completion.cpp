// SPDX-License-Identifier: Apache-2.0
#include "host/tools/shell/zsh_completion.hpp"

#include "host/terminal/shell_text.hpp"
#include "host/tools/shell/option_values.hpp"

#include <array>
#include <string>
#include <vector>

namespace tenon {
namespace {

constexpr std::string_view kSpecial = "\\[]:";

// The part of _arguments for one value: ":DIR:_files -/".
std::string value_spec(const ValueForm& form) {
  std::string spec = ":" + escaped_text(form.name, kSpecial) + ":";
  if (form.is_prefix) {
    return spec + "compadd -S \"\" -- " + spaced(form.words);
  }
  if (form.takes_file && !form.words.empty()) {
    return spec + "{compadd -- " + spaced(form.words) + "; _files}";
  }
  return spec + (form.takes_file      ? "_files"
                 : form.takes_folder  ? "_files -/"
                 : form.words.empty() ? " "
                                      : "(" + spaced(form.words) + ")");
}

}  // namespace

std::string zsh_completion(ActionTable actions) {
  std::string text =
      "#compdef tenon\n# zsh completion for tenon, printed by: tenon --print-completion zsh\n"
      "_arguments";
  std::vector<std::string> verbs;
  for (const Action* const action : actions) {
    verbs.emplace_back(action->verb);
  }
  // The first argument is a verb; its values follow.
  text += " \\\n  " + shell_text(std::array{"1::verb:(" + spaced(verbs) + ")"});
  text += " \\\n  '*:value:_files'";
  for (const Option& option : options_of(actions)) {
    const std::vector<ValueForm> forms = value_forms(option);
    std::string spec = option.repeat == Repeat::kYes ? "*" : "";
    spec += "--" + std::string(option.name) + (forms.size() == 1 ? "=" : "");
    spec += "[" + escaped_text(short_help(option), kSpecial) + "]";
    for (const ValueForm& form : forms) {
      spec += value_spec(form);
    }
    text += " \\\n  " + shell_text(std::array{spec});
  }
  return text + "\n";
}

}  // namespace tenon
