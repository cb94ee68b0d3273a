// SPDX-License-Identifier: Apache-2.0
#include "host/train/state_fields.hpp"

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
    const size_t space = text.find(' ', begin);
    metrics[text.substr(begin, space - begin)] = std::strtod(text.c_str() + space, nullptr);
    begin = text.find('\n', begin) + 1;
  }
  return metrics;
}

}  // namespace tenon
