// SPDX-License-Identifier: Apache-2.0
#include "host/terminal/given_options.hpp"

#include "host/error/utf8.hpp"
#include "host/terminal/shell_text.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/text/formatted.hpp"

#include <boost/program_options/cmdline.hpp>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace tenon {
namespace {

namespace po = boost::program_options;

using Known = std::span<const Option>;

const Option* find_option(Known known, std::string_view name) {
  const auto found = std::ranges::find(known, name, &Option::name);
  return found != known.end() ? &*found : nullptr;
}

[[noreturn]] void fail_unknown(Known known, std::string_view written) {
  std::vector<std::string> names;
  for (const Option& option : known) {
    names.push_back("--" + std::string(option.name));
  }
  const std::string name(written.substr(0, written.find('=')));
  fail_usage("there is no option " + name + hint_of(name, names, "--help lists all options"));
}

// Rejects an argument without an option, and suggests the option that is probably missing.
[[noreturn]] void fail_positional(Known known, const std::string& argument) {
  if (argument.size() > 1 && argument.front() == '-') {
    fail_unknown(known, argument);
  }
  std::error_code ignored;
  std::string option;
  if (std::filesystem::is_directory(argument, ignored)) {
    option = "--plugin-dir";
  } else if (argument.ends_with(".json")) {
    option = "--recipe";
  } else if (argument.find('=') != std::string::npos) {
    option = "--set";
  }
  const std::vector<std::string> suggested = {option, argument};
  fail_usage("no option takes the argument " + in_quotes(argument) +
             (option.empty() ? "; --help lists all options"
                             : "; did you mean " + shell_text(suggested) + "?"));
}

[[noreturn]] void fail_without_value(const Option& option) {
  const std::string name = "--" + std::string(option.name);
  fail_usage(name + " needs a value: " + name + " " + std::string(option.value));
}

// True for a known option, with or without a value: "--validate", "--recipe=x".
bool is_option(Known known, std::string_view word) {
  return word.starts_with("--") &&
         find_option(known, word.substr(2, word.find('=') - 2)) != nullptr;
}

[[noreturn]] void fail_syntax(Known known, const po::invalid_command_line_syntax& error) {
  std::string name = error.get_option_name();
  name.erase(0, name.find_first_not_of('-'));
  const Option* const option = find_option(known, name);
  if (option == nullptr || error.kind() == po::invalid_command_line_syntax::extra_parameter) {
    fail_usage("--" + name + " takes no value");
  }
  fail_without_value(*option);
}

// Returns the options in the order of the command line. Boost only splits the words.
std::vector<po::option> split(Known known, const std::vector<std::string>& arguments) {
  po::options_description described;
  for (const Option& option : known) {
    const std::string name(option.name);
    if (option.is_flag()) {
      described.add_options()(name.c_str(), "");
    } else if (option.num_values() > 1) {
      described.add_options()(
          name.c_str(), po::value<std::vector<std::string>>()->multitoken(), "");
    } else {
      described.add_options()(name.c_str(), po::value<std::string>(), "");
    }
  }
  // No abbreviations: a new option could make them ambiguous.
  const int style = po::command_line_style::allow_long |
                    po::command_line_style::long_allow_adjacent |
                    po::command_line_style::long_allow_next;
  try {
    return po::command_line_parser(arguments).options(described).style(style).run().options;
  } catch (const po::unknown_option& error) {
    fail_unknown(known, error.get_option_name());
  } catch (const po::invalid_command_line_syntax& error) {
    fail_syntax(known, error);
  }
}

// Throws if the values are invalid. `earlier` are values of the same option earlier in the line.
void check_values(Known known,
                  const Option& option,
                  const po::option& given,
                  const std::vector<std::string>& earlier) {
  if (option.is_flag()) {
    return;
  }
  const std::string name = "--" + std::string(option.name);
  const std::string& first = given.value.front();
  if (!earlier.empty() && option.repeat == Repeat::kNo) {
    fail_usage(name + " is given twice: " + in_quotes(earlier.front()) + " and " +
               in_quotes(first));
  }
  const bool has_swallowed_option = given.original_tokens.size() > 1 && is_option(known, first);
  if (first.empty() || has_swallowed_option) {
    fail_without_value(option);
  }
  if (given.value.size() != option.num_values()) {
    fail_usage(formatted("{}: expected {} values, found {}; give {} {}",
                         name,
                         option.num_values(),
                         given.value.size(),
                         name,
                         option.value));
  }
}

// Rejects values that no JSON text can contain: recipes, summaries and checkpoints have paths.
void check_utf8(Known known, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::size_t at = invalid_utf8_at(word);
    if (at == std::string::npos) {
      continue;
    }
    std::string name = "an argument";
    std::size_t begin = 0;  // of the value
    const std::size_t equals = word.find('=');
    if (is_option(known, word) && equals < at) {
      name = word.substr(0, equals);
      begin = equals + 1;
    } else if (i > 0 && is_option(known, arguments[i - 1]) &&
               arguments[i - 1].find('=') == std::string::npos) {
      name = arguments[i - 1];
    }
    fail_usage(name + " " + not_utf8_text(std::string_view(word).substr(begin)));
  }
}

}  // namespace

GivenOptions::GivenOptions(const std::vector<std::string>& arguments, Known known) {
  check_utf8(known, arguments);
  for (const po::option& given : split(known, arguments)) {
    if (given.string_key.empty()) {
      const std::string word = given.value.empty() ? "" : given.value.front();
      if (word != "-h") {
        fail_positional(known, word);
      }
      values_["help"];
      continue;
    }
    std::vector<std::string>& values = values_[given.string_key];
    check_values(known, *find_option(known, given.string_key), given, values);
    values.insert(values.end(), given.value.begin(), given.value.end());
  }
}

std::string GivenOptions::value_of(std::string_view name) const {
  const auto found = values_.find(name);
  return found != values_.end() && !found->second.empty() ? found->second.front() : std::string();
}

std::vector<std::string> GivenOptions::values_of(std::string_view name) const {
  const auto found = values_.find(name);
  return found != values_.end() ? found->second : std::vector<std::string>();
}

std::vector<std::string> GivenOptions::names() const {
  std::vector<std::string> names;
  names.reserve(values_.size());
  for (const auto& [name, values] : values_) {
    names.push_back(name);
  }
  return names;
}

}  // namespace tenon
