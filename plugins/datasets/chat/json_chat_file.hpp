// SPDX-License-Identifier: Apache-2.0
//
// A file of JSON objects: one per line, or the elements of a list. The content stays in memory
// until forget().
#pragma once

#include "chat_file.hpp"

namespace tenon {

class JsonChatFile final : public ChatFile {
 public:
  // Reads the file.
  //
  // Errors   chat.open, chat.no_file, chat.read: it cannot be read; chat.not_json: a list that is
  //          not closed, or text around it; chat.unsupported: compressed, or in UTF-16
  JsonChatFile(const std::string& path, IgnoredKeys ignored);

  size_t size() const override { return samples_.size(); }
  std::string place(size_t i) const override;
  Json keys() const override;
  std::vector<SampleRange> parts(size_t bytes) const override;
  void read_bytes(const std::function<void(std::string_view)>& sink) const override;
  void read(const SampleRange& part,
            const std::function<void(const SampleBlock&)>& use) const override;
  void forget() override;

 private:
  struct Extent {
    size_t begin;
    size_t end;
    size_t line;
  };

  std::string_view sample(size_t i) const {
    return std::string_view(bytes_).substr(samples_[i].begin, samples_[i].end - samples_[i].begin);
  }
  void find_lines(size_t at);
  void find_elements(size_t at);
  [[noreturn]] void fail(size_t line, const std::string& what) const;

  IgnoredKeys ignored_;
  std::string bytes_;
  std::vector<Extent> samples_;
  bool is_list_ = false;
};

}  // namespace tenon
