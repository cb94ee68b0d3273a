// SPDX-License-Identifier: Apache-2.0
#include "host/tools/shell/bash_completion.hpp"

#include "host/text/formatted.hpp"
#include "host/tools/shell/option_values.hpp"

#include <string_view>
#include <vector>

namespace tenon {
namespace {

// Before the verbs: splits the line at blanks. bash itself also splits words at "=" and ":".
constexpr std::string_view kStart =
    R"(# bash completion for tenon, printed by: tenon --print-completion bash
_tenon() {
  local line=${COMP_LINE:0:COMP_POINT} words current='' option='' number=0 action='' offered=''
  local word all_words kind=''
  COMPREPLY=()
  read -ra words <<<"$line"
  all_words=("${words[@]:1}")
  if [[ $line != *' ' ]]; then
    current=${words[-1]}
    all_words=("${all_words[@]:0:${#all_words[@]}-1}")
  fi
)";

// Before the tables of options: finds the option whose value is being typed.
constexpr std::string_view kOption = R"(  if [[ $current == --*=* ]]; then
    option=${current%%=*}
    current=${current#*=}
  elif ((${#all_words[@]} > 0)) && [[ ${all_words[-1]} == --* ]]; then
    option=${all_words[-1]}
  elif ((${#all_words[@]} > 1)) && [[ ${all_words[-2]} == --* ]]; then
    option=${all_words[-2]}
    number=1
  fi
)";

// After the tables.
constexpr std::string_view kEnd = R"(
  case $kind in
    file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    folder) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    prefix) compopt -o nospace 2>/dev/null ;;
  esac
  local words_found
  mapfile -t words_found < <(compgen -W "$offered" -- "$current")
  COMPREPLY+=("${words_found[@]}")
  # bash replaces the text after the last ":" only.
  if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${current%:*}:"}")
  fi
}
complete -F _tenon tenon
)";

std::string kind_of(const ValueForm& form) {
  return form.takes_file ? "file" : form.takes_folder ? "folder" : form.is_prefix ? "prefix" : "";
}

// A branch for each value of an option: "--bind/0) offered='numa cores none' ;;".
std::string value_branches(ActionTable actions) {
  std::string text;
  for (const Option& option : options_of(actions)) {
    int number = 0;
    for (const ValueForm& form : value_forms(option)) {
      text += formatted("    --{}/{}) ", option.name, number++);
      const std::string kind = kind_of(form);
      text += "kind='" + (kind.empty() ? "text" : kind) + "'";
      text += form.words.empty() ? "" : " offered='" + spaced(form.words) + "'";
      text += " ;;\n";
    }
  }
  return text;
}

// Replaces the verb by its option, as the program does: "plan) all_words[0]='--plan' ;;".
std::string verb_branches(ActionTable actions) {
  std::string text = "  if ((${#all_words[@]} > 0)); then\n    case ${all_words[0]} in\n";
  for (const Action* const action : actions.subspan(1)) {
    text += formatted("      {}) all_words[0]='--{}' ;;\n", action->verb, action->option.name);
  }
  return text + "    esac\n  fi\n";
}

std::string verb_words(ActionTable actions) {
  std::vector<std::string> words;
  for (const Action* const action : actions) {
    words.emplace_back(action->verb);
  }
  return spaced(words);
}

std::string option_words(const Action& action) {
  std::vector<std::string> words;
  for (const Option& option : action.options) {
    words.push_back("--" + std::string(option.name));
  }
  return spaced(words);
}

}  // namespace

std::string bash_completion(ActionTable actions) {
  std::string text(kStart);
  text += verb_branches(actions);
  text += kOption;
  text += "  case $option/$number in\n" + value_branches(actions) + "  esac\n";
  text += "  if [[ $kind == '' ]]; then\n    for word in \"${all_words[@]}\"; do\n";
  text += "      case ${word%%=*} in\n";
  std::string options = "    case $action in\n";
  std::string action_names;
  for (const Action* const action : actions) {
    if (action == actions.front()) {
      continue;
    }
    const std::string name = "--" + std::string(action->option.name);
    text += "        " + name + ") action=" + name + " ;;\n";
    options += "      " + name + ") offered='" + option_words(*action) + "' ;;\n";
    action_names += " " + name;
  }
  text += "      esac\n    done\n" + options;
  text += "      *) offered='" + option_words(*actions.front()) + action_names + "' ;;\n    esac\n";
  text += "    ((${#all_words[@]} > 0)) || offered+=' " + verb_words(actions) + "'\n  fi";
  text += kEnd;
  return text;
}

}  // namespace tenon
