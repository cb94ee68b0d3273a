// SPDX-License-Identifier: Apache-2.0
#include "host/chat/code_points.hpp"

#include <algorithm>

namespace tenon {
namespace {

// White space of str.strip() in Python.
bool is_python_space(uint32_t point) {
  return (point >= 0x09 && point <= 0x0d) || (point >= 0x1c && point <= 0x20) || point == 0x85 ||
         point == 0xa0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200a) ||
         point == 0x2028 || point == 0x2029 || point == 0x202f || point == 0x205f ||
         point == 0x3000;
}

}  // namespace

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

uint32_t code_point_of(std::string_view text) {
  const auto at = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[i]));
  };
  switch (text.size()) {
    case 1:
      return at(0);
    case 2:
      return (at(0) & 31) << 6 | (at(1) & 63);
    case 3:
      return (at(0) & 15) << 12 | (at(1) & 63) << 6 | (at(2) & 63);
    default:
      return (at(0) & 7) << 18 | (at(1) & 63) << 12 | (at(2) & 63) << 6 | (at(3) & 63);
  }
}

std::vector<size_t> code_points(std::string_view text) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_continuation(text[i])) {
      starts.push_back(i);
    }
  }
  starts.push_back(text.size());
  return starts;
}

size_t num_code_points(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return !is_continuation(c); }));
}

size_t space_at_start(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    size_t size = 1;
    while (at + size < text.size() && size < 4 && is_continuation(text[at + size])) {
      ++size;
    }
    if (!is_python_space(code_point_of(text.substr(at, size)))) {
      break;
    }
    at += size;
  }
  return at;
}

size_t space_at_end(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && is_continuation(text[begin])) {
      --begin;
    }
    if (!is_python_space(code_point_of(text.substr(begin, end - begin)))) {
      break;
    }
    end = begin;
  }
  return text.size() - end;
}

}  // namespace tenon
