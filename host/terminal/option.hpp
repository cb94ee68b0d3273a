// SPDX-License-Identifier: Apache-2.0
//
// One option of the command line, as an entry of an action's table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace tenon {

enum class Repeat { kNo, kYes };

struct Option {
  std::string_view name;   // without the dashes
  std::string_view value;  // name of the value in the help, one word per value; "" for a flag
  std::string_view help;   // lines of at most 72 characters
  Repeat repeat = Repeat::kNo;
  std::string_view choices = {};  // the words that complete the value; "" if `value` names them

  bool is_flag() const { return value.empty(); }
  // Returns the number of words that follow the option.
  std::size_t num_values() const {
    return is_flag() ? 0 : 1 + static_cast<std::size_t>(std::ranges::count(value, ' '));
  }
};

}  // namespace tenon
