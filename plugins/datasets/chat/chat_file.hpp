// SPDX-License-Identifier: Apache-2.0
//
// A file of samples: JSON lines, a JSON list, or Parquet. Finds the samples without parsing them.
// Threads: any, after construction.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conversation.hpp"

namespace tenon {

// Samples [begin, end) of a file.
struct SampleRange {
  size_t begin = 0;
  size_t end = 0;
};

// Samples that are in memory.
struct SampleBlock {
  SampleRange samples;
  // Returns a sample of the range.
  //
  // Errors   chat.not_utf8, chat.not_json, chat.bad_parquet, without the place
  // Threads  [any]
  std::function<Json(size_t i)> parse;
};

class ChatFile {
 public:
  virtual ~ChatFile() = default;
  ChatFile(const ChatFile&) = delete;
  ChatFile& operator=(const ChatFile&) = delete;

  const std::string& path() const { return path_; }
  virtual size_t size() const = 0;
  // "chats.jsonl, line 7", or "chats.parquet, row group 0, row 6".
  virtual std::string place(size_t i) const = 0;
  // An object whose keys determine the format: those of the first sample, or the columns. Requires
  // a sample.
  //
  // Errors   as those of a block
  virtual Json keys() const = 0;
  // Keys of samples that nothing reads and that are known without reading samples: columns.
  virtual std::vector<std::string> unread_keys() const { return {}; }
  // Consecutive ranges of about `bytes` bytes that cover all samples.
  virtual std::vector<SampleRange> parts(size_t bytes) const = 0;
  // Passes all bytes to `sink`, in one or several calls.
  //
  // Errors   chat.read, chat.short, chat.changed
  virtual void read_bytes(const std::function<void(std::string_view)>& sink) const = 0;
  // Calls `use` with consecutive blocks of a range that parts() returned. A block ends with its
  // call.
  //
  // Errors   chat.bad_parquet, chat.changed, with the place; those of `use`
  virtual void read(const SampleRange& part,
                    const std::function<void(const SampleBlock&)>& use) const = 0;
  // Frees what is not needed once the samples are encoded. Only path() may be called after it.
  virtual void forget() = 0;

 protected:
  explicit ChatFile(std::string path) : path_(std::move(path)) {}

 private:
  std::string path_;
};

// Opens a file, by its extension. Samples lack the `ignored` keys.
//
// Errors   chat.open, chat.no_file, chat.read: it cannot be read; chat.not_json; chat.bad_parquet;
//          chat.unsupported: Arrow, Feather, compressed, or in UTF-16
std::unique_ptr<ChatFile> open_chat_file(const std::string& path, const IgnoredKeys& ignored);

}  // namespace tenon
