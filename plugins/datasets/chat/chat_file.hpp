// SPDX-License-Identifier: Apache-2.0
//
// A file of samples, each a JSON object: one per line, or the elements of a list. Finds the bytes
// of each sample without parsing them. Threads: any, after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class ChatFile {
 public:
  // Reads the file.
  //
  // Errors   chat.open, chat.no_file, chat.read: it cannot be read; chat.not_json: a list that is
  //          not closed, or text around it; chat.unsupported: Parquet
  explicit ChatFile(std::string path);

  const std::string& path() const { return path_; }
  // The content.
  const std::string& bytes() const { return bytes_; }
  size_t size() const { return samples_.size(); }
  std::string_view sample(size_t i) const {
    return std::string_view(bytes_).substr(samples_[i].begin, samples_[i].end - samples_[i].begin);
  }
  // "chats.jsonl, line 7"; in a list also the number of the sample.
  std::string place(size_t i) const;
  // Frees the content and the places, which are not needed once the samples are encoded.
  void forget();

 private:
  struct Range {
    size_t begin;
    size_t end;
    size_t line;
  };

  void find_lines(size_t at);
  void find_elements(size_t at);
  [[noreturn]] void fail(size_t line, const std::string& what) const;

  std::string path_;
  std::string bytes_;
  std::vector<Range> samples_;
  bool is_list_ = false;
};

// The files that names and patterns (*, ?, [...]) stand for, in name order.
//
// Errors   chat.open
std::vector<std::string> expand_file_names(const std::vector<std::string>& names);

// The content of a small file.
//
// Errors   chat.open, chat.no_file, chat.read
std::string read_text_file(const std::string& path);

}  // namespace tenon
