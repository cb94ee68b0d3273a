// SPDX-License-Identifier: Apache-2.0
#include "chat_file.hpp"

#include <tenon/cpp/stable_file.hpp>

#include <algorithm>
#include <filesystem>
#include <glob.h>
#include <system_error>

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

ChatFile::ChatFile(std::string path) : path_(std::move(path)) {
  const std::string extension = std::filesystem::path(path_).extension().string();
  if (extension == ".parquet" || extension == ".arrow" || extension == ".feather") {
    TENON_FAIL(TENON_UNSUPPORTED,
               "chat.unsupported",
               path_,
               ": the dataset reads JSON lines and JSON lists (found ",
               extension,
               "); convert the file to JSON lines");
  }
  bytes_ = read_text_file(path_);
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

void ChatFile::find_lines(size_t at) {
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

void ChatFile::find_elements(size_t at) {
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

std::string ChatFile::place(size_t i) const {
  return concat(path_, ", line ", samples_[i].line) +
         (is_list_ ? concat(" (sample ", i + 1, ")") : std::string());
}

void ChatFile::forget() {
  bytes_ = std::string();
  samples_ = std::vector<Range>();
}

void ChatFile::fail(size_t line, const std::string& what) const {
  TENON_FAIL(TENON_INVALID, "chat.not_json", path_, ", line ", line, ": ", what);
}

std::vector<std::string> expand_file_names(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::error_code ignored;
    if (name.find_first_of("*?[") == std::string::npos || std::filesystem::exists(name, ignored)) {
      files.push_back(name);
      continue;
    }
    glob_t found{};
    const int result = ::glob(name.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &found);
    std::vector<std::string> matches(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    if (result == GLOB_NOMATCH) {
      TENON_FAIL(TENON_NOT_FOUND, "chat.open", "no file matches the pattern ", name);
    }
    if (result != 0) {
      TENON_FAIL(TENON_IO, "chat.open", "cannot read the folders of the pattern ", name);
    }
    std::sort(matches.begin(), matches.end());
    files.insert(files.end(), matches.begin(), matches.end());
  }
  return files;
}

std::string read_text_file(const std::string& path) {
  const StableFile file(path, "chat");
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, text.size(), text.data());
  file.check_unchanged(0);
  return text;
}

}  // namespace tenon
