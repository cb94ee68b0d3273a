// SPDX-License-Identifier: Apache-2.0
//
// What a shell offers for the values of an option, read from the option tables.
// Threads: any.
#pragma once

#include "host/terminal/option.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// The candidates for one value of an option. All empty: the value is free text.
struct ValueForm {
  std::string name;                     // as in the help: "DIR"
  std::vector<std::string> words = {};  // fixed words
  bool is_prefix = false;               // more text follows a word: "loss:"
  bool takes_file = false;              // names of files, folders included
  bool takes_folder = false;            // names of folders
};

// Returns one form for each value of the option.
std::vector<ValueForm> value_forms(const Option& option);

// Returns the part of an option's help that fits a menu: up to the first full stop or semicolon,
// without line breaks.
std::string short_help(const Option& option);

// Returns the text with each character of `special` after a backslash.
std::string escaped_text(std::string_view text, std::string_view special);

// Joins words with spaces.
std::string spaced(const std::vector<std::string>& words);

}  // namespace tenon
