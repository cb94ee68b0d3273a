// SPDX-License-Identifier: Apache-2.0
#include "host/trust/child/child_output.hpp"

#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"

#include <cstring>
#include <utility>

namespace tenon {
namespace {

constexpr std::size_t kMaxLastWords = 200;

// Returns the lines that are not blank, without surrounding whitespace.
std::vector<std::string> filled_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string_view line : lines_of(text)) {
    if (std::string kept = without_outer_space(line); !kept.empty()) {
      lines.push_back(std::move(kept));
    }
  }
  return lines;
}

}  // namespace

std::string without_outer_space(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_space(text.back())) {
    text.remove_suffix(1);
  }
  return std::string(text);
}

ChildOutput split_output(const std::string& all) {
  // The last mark, because the plugin may print anything before it.
  const std::size_t mark = all.rfind(kBacktraceMark);
  if (mark == std::string::npos) {
    return {without_outer_space(all), {}};
  }
  return {without_outer_space(all.substr(0, mark)),
          filled_lines(all.substr(mark + kBacktraceMark.size()))};
}

std::string last_words(const std::string& text) {
  const std::vector<std::string> lines = filled_lines(text);
  std::string words;
  for (std::size_t i = lines.size() > 2 ? lines.size() - 2 : 0; i < lines.size(); ++i) {
    words += (words.empty() ? "" : " ") + lines[i];
  }
  for (char& c : words) {
    if (static_cast<unsigned char>(c) < ' ') {
      c = '?';
    }
  }
  if (words.size() > kMaxLastWords) {
    words = "..." + words.substr(words.size() - kMaxLastWords);
  }
  return words;
}

std::string innermost_frame(const std::string& file, const std::vector<std::string>& frames) {
  const std::string name = file.substr(file.rfind('/') + 1);
  for (const std::string& frame : frames) {
    const std::size_t at = frame.find("/" + name + "(");
    if (at != std::string::npos) {
      return frame.substr(at + 1, frame.find(')', at) - at);
    }
  }
  return {};
}

std::string signal_name(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name != nullptr ? "SIG" + std::string(name) : formatted("signal {}", signal);
}

}  // namespace tenon
