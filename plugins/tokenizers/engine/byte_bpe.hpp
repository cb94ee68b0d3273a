// SPDX-License-Identifier: Apache-2.0
//
// Byte pair encoding of bytes: words of bytes to ids. Words come from split patterns. Each call
// uses a cache of words, which it borrows from the vocabulary's pool, so concurrent calls share
// nothing that is written. Invariant: the ids of a word do not depend on the cache. Threads: after
// construction, encode may be called from many threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "merge_table.hpp"
#include "split_pattern.hpp"
#include "token_map.hpp"

namespace tenon {

// Bytes of the text that a token covers.
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Receives tokens in order, in several calls. `ranges` is null if the caller asked for ids alone.
class TokenReceiver {
 public:
  TokenReceiver() = default;
  TokenReceiver(const TokenReceiver&) = delete;
  TokenReceiver& operator=(const TokenReceiver&) = delete;
  virtual ~TokenReceiver() = default;
  virtual void receive(const int32_t* ids, const ByteRange* ranges, size_t n) = 0;
};

enum class WholeWords { kMerged, kLookedUp };  // kLookedUp: a word that is a token is that token
enum class WithRanges { kNo, kYes };

class WordCache;

class ByteBpe {
 public:
  // Takes the tokens' bytes with their ids, and the merge rules. A later rule of an equal pair
  // replaces an earlier one.
  ByteBpe(TokenMap tokens, const std::vector<MergeRule>& rules, WholeWords whole_words);
  ~ByteBpe();
  ByteBpe(const ByteBpe&) = delete;
  ByteBpe& operator=(const ByteBpe&) = delete;

  // Whether each byte of a text is a token. Other texts cannot be encoded here.
  bool has_all_bytes(std::string_view text) const;
  // A byte without a token.
  std::optional<unsigned char> missing_byte() const;

  /* Splits the part [begin, end) of a text with all bytes by the patterns, one after the other, and
   * encodes each piece. Ranges are widened to whole code points of the text.
   *
   * Threads  [any] */
  void encode(std::string_view text,
              size_t begin,
              size_t end,
              const std::vector<SplitPattern>& patterns,
              WithRanges with_ranges,
              TokenReceiver& receiver) const;

  // Encodes one word with all bytes; appends its ids.
  void encode_word(std::string_view word, std::vector<int32_t>& out) const;

  // Bytes of a token; 0 for an id that has none.
  uint32_t size_of(int32_t id) const { return sizes_[static_cast<size_t>(id)]; }

 private:
  friend class ByteBpeCall;
  size_t merge_short(std::string_view word, int32_t* out) const;
  std::unique_ptr<WordCache> take_cache() const;
  void give_cache(std::unique_ptr<WordCache> cache) const;

  TokenMap tokens_;
  WholeWords whole_words_;
  std::array<int32_t, 256> byte_ids_{};
  bool has_byte_ids_ = true;  // all 256
  MergeTable merges_;
  std::vector<MergeTable::Merged> byte_pairs_;  // of two bytes
  std::vector<uint32_t> sizes_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> caches_;
};

}  // namespace tenon
