// SPDX-License-Identifier: Apache-2.0
//
// Encoded samples of a range of a file, and their form on disk.
//
// A shard on disk has a header, the ends of its rows, its tokens, the bytes of tokens if they are
// kept, and a checksum of all of it. It is
// written under another name and then renamed, so that a shard that exists is whole.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
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

// The largest number of something, and the place of the sample that has it.
struct LargestCount {
  int64_t number = -1;
  std::string place;

  void add(int64_t other, const std::string& at) {
    place = other > number ? at : place;
    number = std::max(number, other);
  }
};

struct ShardCounts {
  SampleCount unlabeled;  // dropped: no label to train on
  SampleCount dropped;    // over-long
  SampleCount cut;
  SampleCount split;
  SampleCount bad;  // dropped with `bad_samples`: "skip"; `first` is its place and what is wrong
  LargestCount length;  // tokens of a row
  LargestCount id;      // of a token

  // True if each sample has its row, or its pair of rows.
  bool is_one_row_each() const {
    return unlabeled.samples + dropped.samples + split.samples + bad.samples == 0;
  }

  void add(const ShardCounts& more) {
    unlabeled.add(more.unlabeled);
    dropped.add(more.dropped);
    cut.add(more.cut);
    split.add(more.split);
    bad.add(more.bad);
    length.add(more.length.number, more.length.place);
    id.add(more.id.number, more.id.place);
  }
};

// What is wrong with samples of a shard. Such a shard is never stored.
struct ShardProblems {
  static constexpr size_t kMostKept = 20;  // messages

  int64_t num_bad = 0;
  std::vector<Error> bad;  // the first ones, with their places
  std::map<std::string, SampleCount> unknown_keys;

  bool is_empty() const { return num_bad == 0 && unknown_keys.empty(); }
  void add(const Error& error) {
    if (num_bad++ < static_cast<int64_t>(kMostKept)) {
      bad.push_back(error);
    }
  }
  void add(const ShardProblems& more) {
    num_bad += more.num_bad;
    for (const Error& error : more.bad) {
      if (bad.size() < kMostKept) {
        bad.push_back(error);
      }
    }
    for (const auto& [key, count] : more.unknown_keys) {
      unknown_keys[key].add(count);
    }
  }
};

// A row is the tokens of a sample; in format `preference` two rows are a sample, chosen first.
struct TokenShard {
  std::vector<int64_t> ends;  // of rows, in tokens
  std::vector<MarkedToken> tokens;
  std::vector<uint32_t> bytes;  // [tokens] see EncodedText; empty if they are not kept
  ShardCounts counts;
  ShardProblems problems;
};

// What names a data set in the cache: 128 bits.
using ShardKey = std::array<uint64_t, 2>;
// 32 hexadecimal digits.
std::string hash_text(const ShardKey& key);

// Writes a shard durably.
//
// Errors   chat.cache: the file cannot be written, with the reason
void write_shard(const std::string& path, const ShardKey& key, const TokenShard& shard);

// Reads a shard; nothing if the file does not exist, or `why` if it is not a whole shard of `key`.
// Each row of a shard has at least two tokens, and a label among those after the first.
std::optional<TokenShard> read_shard(const std::string& path,
                                     const ShardKey& key,
                                     std::string& why);

}  // namespace tenon
