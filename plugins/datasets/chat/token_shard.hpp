// SPDX-License-Identifier: Apache-2.0
//
// Encoded samples of a range of a file, and their form on disk.
//
// A shard on disk has a header, the ends of its rows, its tokens, the bytes of tokens if they are
// kept, and a checksum of all of it. It is
// written under another name and then renamed, so that a shard that exists is whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sample_encoder.hpp"

namespace tenon {

// Why samples were skipped or changed, and where the first one was.
struct SampleCount {
  int64_t samples = 0;
  std::string first;  // place

  void add(const std::string& place) { first = samples++ == 0 ? place : first; }
  void add(const SampleCount& more) {
    first = samples == 0 ? more.first : first;
    samples += more.samples;
  }
};

struct ShardCounts {
  SampleCount unlabeled;  // dropped: no label to train on
  SampleCount dropped;    // over-long
  SampleCount cut;
  SampleCount split;
};

// A row is the tokens of a sample; in format `preference` two rows are a sample, chosen first.
struct TokenShard {
  std::vector<int64_t> ends;  // of rows, in tokens
  std::vector<MarkedToken> tokens;
  std::vector<uint32_t> bytes;  // [tokens] see EncodedText; empty if they are not kept
  ShardCounts counts;
};

// What names a data set in the cache: 128 bits.
using ShardKey = std::array<uint64_t, 2>;

// Writes a shard durably.
//
// Errors   chat.cache: the file cannot be written, with the reason
void write_shard(const std::string& path, const ShardKey& key, const TokenShard& shard);

// Reads a shard; nothing if the file does not exist, or `why` if it is not a whole shard of `key`.
std::optional<TokenShard> read_shard(const std::string& path,
                                     const ShardKey& key,
                                     std::string& why);

}  // namespace tenon
