// SPDX-License-Identifier: Apache-2.0
#include "host/train/state_fields.hpp"

#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"

#include <cstdio>
#include <cstdlib>

namespace tenon {

std::string metrics_text(const std::map<std::string, double>& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    char number[40];
    std::snprintf(number, sizeof(number), " %a\n", value);
    text += name + number;
  }
  return text;
}

std::map<std::string, double> metrics_of_text(const std::string& text) {
  std::map<std::string, double> metrics;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    const size_t space = line.rfind(' ');
    char* after = nullptr;
    const double value =
        space != std::string::npos ? std::strtod(line.c_str() + space, &after) : 0.0;
    const bool is_number =
        after != nullptr && after == line.c_str() + line.size() && after > line.c_str() + space + 1;
    if (end == std::string::npos || space == 0 || !is_number) {
      throw Error("state.bad_value",
                  "saved metrics: '" + printable_line(line.substr(0, 120)) +
                      "' is no line of a name and a number; resume from another checkpoint");
    }
    metrics[line.substr(0, space)] = value;
    begin = end + 1;
  }
  return metrics;
}

}  // namespace tenon
