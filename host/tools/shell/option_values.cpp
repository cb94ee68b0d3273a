// SPDX-License-Identifier: Apache-2.0
#include "host/tools/shell/option_values.hpp"

#include "host/error/catalogue.hpp"
#include "host/plugin/kinds.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>

namespace tenon {
namespace {

constexpr std::array<std::string_view, 5> kFileNames = {"FILE", "PATH", "CHECKPOINT", "A", "B"};

ValueForm form_of(const std::string& name) {
  ValueForm form{.name = name};
  if (name == "KIND:TYPE") {
    form.is_prefix = true;
    for (const KindEntry& entry : all_kinds()) {
      form.words.push_back(std::string(entry.kind) + ":");
    }
  } else if (name == "ERROR-ID") {
    form.words.emplace_back("all");
    for (const ErrorEntry& entry : all_errors()) {
      form.words.emplace_back(entry.id);
    }
  } else if (name.find('=') == std::string::npos) {
    std::istringstream choices(name);
    for (std::string choice; std::getline(choices, choice, '|');) {
      if (std::islower(static_cast<unsigned char>(choice.front())) != 0) {
        form.words.push_back(choice);
      }
      form.takes_file |= std::ranges::find(kFileNames, choice) != kFileNames.end();
      form.takes_folder |= choice == "DIR";
    }
  }
  return form;
}

}  // namespace

std::vector<ValueForm> value_forms(const Option& option) {
  std::vector<ValueForm> forms;
  std::istringstream names{std::string(option.value)};
  for (std::string name; names >> name;) {
    forms.push_back(form_of(name));
  }
  if (!forms.empty()) {
    std::istringstream choices{std::string(option.choices)};
    for (std::string word; choices >> word;) {
      forms.front().words.push_back(word);
    }
  }
  return forms;
}

std::string short_help(const Option& option) {
  std::string text(option.help);
  std::ranges::replace(text, '\n', ' ');
  return text.substr(0, std::min(text.find(". "), text.find("; ")));
}

std::string escaped_text(std::string_view text, std::string_view special) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) {
      result += '\\';
    }
    result += c;
  }
  return result;
}

std::string spaced(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

}  // namespace tenon
