// SPDX-License-Identifier: Apache-2.0
//
// Encodes samples of a file on several threads, and applies the policy for long samples and for
// those without a label.
// Threads: one call at a time.
#pragma once

#include <string>
#include <vector>

#include "chat_file.hpp"
#include "chat_options.hpp"
#include "sample_encoder.hpp"
#include "token_shard.hpp"

namespace tenon {

class ShardMaker {
 public:
  // `tools` are for chats without their own; null if there are none. The encoder is borrowed.
  ShardMaker(const ChatOptions& options, const SampleEncoder& encoder, Json tools);

  // The rows of a range that ChatFile::parts() returned, in the order of the file.
  //
  // Errors   those of the file, and those that all samples have; others are in the shard's problems
  TokenShard make(const ChatFile& file, ChatFormat format, const SampleRange& part) const;

 private:
  void add_sample(const ChatFile& file,
                  size_t i,
                  const SampleBlock& block,
                  ChatFormat format,
                  TokenShard& out) const;
  void encode_sample(
      const ChatFile& file, size_t i, const Json& sample, ChatFormat format, TokenShard& out) const;
  void add_overlong(const ChatFile& file,
                    size_t i,
                    const std::vector<EncodedText>& rows,
                    size_t limit,
                    TokenShard& out) const;
  void add_row(TokenShard& shard, const EncodedText& row, size_t begin, size_t end) const;

  ChatOptions options_;
  const SampleEncoder& encoder_;
  Json tools_;
  std::string templates_;
};

// Calls body() and adds the place of a sample to its error.
template <class Body>
auto at_place(const ChatFile& file, size_t i, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(error.code(), error.id(), file.place(i) + ": " + error.what());
  }
}

}  // namespace tenon
