// SPDX-License-Identifier: Apache-2.0
#include "json_chat_file.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "../plain_text.hpp"
#include "input_files.hpp"

namespace tenon {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Follows JSON through strings and brackets, byte by byte.
class Nesting {
 public:
  void next(char c) {
    if (in_string_) {
      if (is_escaped_) {
        is_escaped_ = false;
      } else if (c == '\\') {
        is_escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      --depth_;
    }
  }
  // Between the elements of the list that the text is in.
  bool is_outside() const { return depth_ == 0 && !in_string_; }
  bool is_closed() const { return depth_ < 0; }

 private:
  int64_t depth_ = 0;
  bool in_string_ = false;
  bool is_escaped_ = false;
};

}  // namespace

JsonChatFile::JsonChatFile(const std::string& path, IgnoredKeys ignored)
    : ChatFile(path), ignored_(std::move(ignored)) {
  bytes_ = read_text_file(path);
  if (const std::string what = foreign_format(std::string_view(bytes_).substr(0, 8));
      !what.empty()) {
    TENON_FAIL(TENON_UNSUPPORTED, "chat.unsupported", path, " is ", what);
  }
  size_t at = bytes_.compare(0, 3, "\xef\xbb\xbf") == 0 ? 3 : 0;
  while (at < bytes_.size() && is_space(bytes_[at])) {
    ++at;
  }
  if (at < bytes_.size() && bytes_[at] == '[') {
    is_list_ = true;
    find_elements(at + 1);
  } else {
    find_lines(bytes_.compare(0, 3, "\xef\xbb\xbf") == 0 ? 3 : 0);
  }
}

void JsonChatFile::find_lines(size_t at) {
  for (size_t line = 1; at < bytes_.size(); ++line) {
    const size_t end = std::min(bytes_.find('\n', at), bytes_.size());
    const auto first = bytes_.begin() + static_cast<ptrdiff_t>(at);
    const auto last = bytes_.begin() + static_cast<ptrdiff_t>(end);
    if (!std::all_of(first, last, is_space)) {
      samples_.push_back({at, end, line});
    }
    at = end + 1;
  }
}

void JsonChatFile::find_elements(size_t at) {
  auto line = static_cast<size_t>(
                  std::count(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(at), '\n')) +
              1;
  Nesting nesting;
  size_t begin = at;
  size_t begin_line = line;
  bool has_begun = false;
  bool is_after_comma = false;
  for (; at < bytes_.size(); ++at) {
    const char c = bytes_[at];
    const bool is_outside = nesting.is_outside();
    if (!has_begun && is_outside && !is_space(c) && c != ',' && c != ']') {
      has_begun = true;
      begin = at;
      begin_line = line;
    }
    nesting.next(c);
    if (is_outside && (c == ',' || nesting.is_closed())) {
      if (has_begun) {
        samples_.push_back({begin, at, begin_line});
      } else if (c == ',' || is_after_comma) {
        fail(line, "the list has an empty element, expected a JSON object");
      }
      has_begun = false;
      is_after_comma = c == ',';
      if (nesting.is_closed()) {
        break;
      }
    }
    line += c == '\n' ? 1 : 0;
  }
  if (!nesting.is_closed()) {
    fail(line, "the list is not closed, expected ]; the file may be truncated");
  }
  for (++at; at < bytes_.size(); ++at) {
    if (!is_space(bytes_[at])) {
      fail(line, "text after the list, expected the end of the file");
    }
    line += bytes_[at] == '\n' ? 1 : 0;
  }
}

std::string JsonChatFile::place(size_t i) const {
  return concat(path(), ", line ", samples_[i].line) +
         (is_list_ ? concat(" (sample ", i + 1, ")") : std::string());
}

Json JsonChatFile::keys() const {
  return parse_sample(sample(0), ignored_);
}

std::vector<SampleRange> JsonChatFile::parts(size_t bytes) const {
  std::vector<SampleRange> parts;
  size_t begin = 0;
  size_t size_of_part = 0;
  for (size_t i = 0; i < samples_.size(); ++i) {
    size_of_part += sample(i).size();
    if (size_of_part >= bytes || i + 1 == samples_.size()) {
      parts.push_back({begin, i + 1});
      begin = i + 1;
      size_of_part = 0;
    }
  }
  return parts;
}

void JsonChatFile::read_bytes(const std::function<void(std::string_view)>& sink) const {
  sink(bytes_);
}

void JsonChatFile::read(const SampleRange& part,
                        const std::function<void(const SampleBlock&)>& use) const {
  use({part, [this](size_t i) { return parse_sample(sample(i), ignored_); }});
}

void JsonChatFile::forget() {
  bytes_ = std::string();
  samples_ = std::vector<Extent>();
}

void JsonChatFile::fail(size_t line, const std::string& what) const {
  TENON_FAIL(TENON_INVALID, "chat.not_json", path(), ", line ", line, ": ", what);
}

}  // namespace tenon
