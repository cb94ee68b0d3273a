// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a command line, split into options and their values. The actions define the
// meaning of options and their valid combinations.
// Threads: any.
#pragma once

#include "host/terminal/option.hpp"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class GivenOptions {
 public:
  GivenOptions() = default;
  // Reads the arguments that follow the program's name. `known` has each name once.
  // Errors  usage.bad_option: an unknown option, a missing or surplus value, or an argument without
  //         an option
  GivenOptions(const std::vector<std::string>& arguments, std::span<const Option> known);

  bool has(std::string_view name) const { return values_.contains(name); }
  // Returns the first value; "" if the option is not given.
  std::string value_of(std::string_view name) const;
  std::vector<std::string> values_of(std::string_view name) const;
  // In alphabetical order.
  std::vector<std::string> names() const;

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

}  // namespace tenon
