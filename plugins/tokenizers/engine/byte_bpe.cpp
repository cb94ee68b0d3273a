// SPDX-License-Identifier: Apache-2.0
#include "byte_bpe.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tenon {
namespace {

constexpr size_t kShortWord = 64;    // bytes; longer words are merged with a queue
constexpr size_t kInlineBytes = 15;  // of a word in the first table of the cache
constexpr size_t kInlineIds = 3;
constexpr size_t kCachedBytes = 512;  // longer words are not cached
constexpr size_t kOutput = 8192;      // ids per call of the receiver

// A word of up to 15 bytes, padded with zeros, with its size in the last byte.
struct WordKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

constexpr uint64_t kMix = 0x9E3779B97F4A7C15u;

struct KeyMasks {
  alignas(16) std::array<std::array<uint8_t, 16>, 16> values{};
  constexpr KeyMasks() {
    for (size_t size = 0; size < 16; ++size) {
      for (size_t i = 0; i < size; ++i) {
        values[size][i] = 0xFF;
      }
    }
  }
};
constexpr KeyMasks kKeyMasks{};

inline WordKey key_of(__m128i bytes, size_t size) {
  const __m128i mask =
      _mm_load_si128(reinterpret_cast<const __m128i*>(kKeyMasks.values[size].data()));
  const __m128i word = _mm_and_si128(bytes, mask);
  WordKey key;
  key.low = static_cast<uint64_t>(_mm_cvtsi128_si64(word));
  key.high = static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(word, word))) |
             static_cast<uint64_t>(size) << 56;
  return key;
}

}  // namespace

// Ids of words that were encoded before. Bounded: a new word replaces an old one.
class WordCache {
 public:
  struct Entry {
    uint64_t low;
    uint64_t high;
    int32_t ids[kInlineIds];
    uint32_t n;
  };

  WordCache() : lines_(size_t{1} << kBits), long_slots_(size_t{1} << kLongBits) {
    arena_.reserve(kArena + kCachedBytes * 5);
  }

  const Entry* find(const WordKey& key) const {
    const Line& line = lines_[index_of(key)];
    if (line.entries[0].low == key.low && line.entries[0].high == key.high) {
      return &line.entries[0];
    }
    if (line.entries[1].low == key.low && line.entries[1].high == key.high) {
      return &line.entries[1];
    }
    return nullptr;
  }

  void add(const WordKey& key, const int32_t* ids, size_t n) {
    Line& line = lines_[index_of(key)];
    line.entries[1] = line.entries[0];
    Entry& entry = line.entries[0];
    entry.low = key.low;
    entry.high = key.high;
    entry.n = static_cast<uint32_t>(n);
    std::copy(ids, ids + n, entry.ids);
  }

  // The ids of a longer word; null if it is not known.
  const int32_t* find_long(std::string_view word, uint64_t hash, size_t& n) const {
    const LongSlot& slot = long_slots_[hash >> (64 - kLongBits)];
    if (slot.hash != hash || slot.size != word.size() ||
        std::memcmp(arena_.data() + slot.begin, word.data(), word.size()) != 0) {
      return nullptr;
    }
    n = slot.n;
    return reinterpret_cast<const int32_t*>(arena_.data() + slot.ids);
  }

  void add_long(std::string_view word, uint64_t hash, const int32_t* ids, size_t n) {
    if (arena_.size() > kArena) {
      arena_.clear();
      std::fill(long_slots_.begin(), long_slots_.end(), LongSlot{});
    }
    LongSlot& slot = long_slots_[hash >> (64 - kLongBits)];
    slot.hash = hash;
    slot.begin = static_cast<uint32_t>(arena_.size());
    slot.size = static_cast<uint16_t>(word.size());
    slot.n = static_cast<uint16_t>(n);
    arena_.insert(arena_.end(), word.begin(), word.end());
    arena_.resize((arena_.size() + 3) / 4 * 4);
    slot.ids = static_cast<uint32_t>(arena_.size());
    const char* bytes = reinterpret_cast<const char*>(ids);
    arena_.insert(arena_.end(), bytes, bytes + n * sizeof(int32_t));
  }

  std::vector<int32_t>& output() { return output_; }
  std::vector<ByteRange>& ranges() { return ranges_; }
  std::vector<int32_t>& word() { return word_; }

 private:
  static constexpr int kBits = 15;  // lines of 64 bytes: 2 MiB
  static constexpr int kLongBits = 14;
  static constexpr size_t kArena = size_t{2} << 20;
  struct alignas(64) Line {
    Entry entries[2] = {};
  };
  struct LongSlot {
    uint64_t hash = 0;
    uint32_t begin = 0;
    uint32_t ids = 0;
    uint16_t size = 0;
    uint16_t n = 0;
  };

  static size_t index_of(const WordKey& key) {
    const uint64_t mixed = (key.low ^ (key.high * kMix)) * kMix;
    return (mixed ^ mixed >> 23) * kMix >> (64 - kBits);
  }

  std::vector<Line> lines_;
  std::vector<LongSlot> long_slots_;
  std::vector<char> arena_;
  std::vector<int32_t> output_;
  std::vector<ByteRange> ranges_;
  std::vector<int32_t> word_;
};

// One call of ByteBpe::encode.
class ByteBpeCall {
 public:
  ByteBpeCall(const ByteBpe& bpe,
              WordCache& cache,
              std::string_view text,
              const std::vector<SplitPattern>& patterns,
              WithRanges with_ranges,
              TokenReceiver& receiver)
      : bpe_(bpe),
        cache_(cache),
        text_begin_(text.data()),
        text_end_(text.data() + text.size()),
        patterns_(patterns),
        with_ranges_(with_ranges),
        receiver_(receiver) {
    cache_.output().resize(kOutput + kSlack);
    out_ = cache_.output().data();
    out_end_ = out_ + kOutput;
    if (with_ranges == WithRanges::kYes) {
      cache_.ranges().resize(kOutput + kSlack);
    }
  }

  void run(const char* begin, const char* end) {
    split(0, begin, end);
    flush();
  }

 private:
  static constexpr size_t kSlack = 64;  // ids that fit after the end of the output

  void split(size_t stage, const char* begin, const char* end) {
    if (stage == patterns_.size()) {
      if (begin < end) {
        add_word(begin, end);
      }
      return;
    }
    const SplitPattern& pattern = patterns_[stage];
    if (stage + 1 == patterns_.size()) {
      switch (pattern.kind()) {
        case PatternKind::kGpt2:
          return add_words<Gpt2Scanner, false>(begin, end);
        case PatternKind::kCl100k:
          return add_words<Cl100kScanner<3, Breaks::kFirst>, true>(begin, end);
        case PatternKind::kCl100kAtEnd:
          return add_words<Cl100kScanner<3, Breaks::kAtTextEnd>, true>(begin, end);
        case PatternKind::kQwen2:
          return add_words<Cl100kScanner<1, Breaks::kFirst>, true>(begin, end);
        case PatternKind::kQwen35:
          return add_words<Cl100kScanner<1, Breaks::kFirst, kClassL | kClassM>, true>(begin, end);
        case PatternKind::kO200k:
          return add_words<O200kScanner<3, true>, false>(begin, end);
        case PatternKind::kTekken:
          return add_words<O200kScanner<1, false>, false>(begin, end);
        case PatternKind::kDeepSeek:
          return add_words<DeepSeekScanner, false>(begin, end);
        default:
          break;
      }
    }
    pattern.isolate(begin, end, [&](const char* b, const char* e) { split(stage + 1, b, e); });
  }

  // The size of a word of ASCII letters, with the byte before that the pattern allows; 0 if the
  // bytes at `p` start no such word of at most 15 bytes, or if what follows may belong to it.
  template <class Scanner, bool kQuoteFirst>
  static size_t ascii_word(__m128i bytes, unsigned char first) {
    const auto below = [](__m128i v, int low, int n) {
      const __m128i shifted = _mm_add_epi8(v, _mm_set1_epi8(static_cast<char>(0x80 - low)));
      return static_cast<unsigned>(
          _mm_movemask_epi8(_mm_cmplt_epi8(shifted, _mm_set1_epi8(static_cast<char>(-128 + n)))));
    };
    unsigned lead = 0;
    if (Scanner::kAnyLead) {
      const uint32_t classes = first < 0x80 ? kAsciiClasses.values[first] : uint32_t{kClassN};
      if ((classes & (kClassN | kClassBreak)) != 0 || (kQuoteFirst && first == '\'')) {
        return 0;
      }
      lead = (classes & kClassL) != 0 ? 0 : 1;
    } else {
      lead = first == ' ' ? 1 : 0;
    }
    const auto high = static_cast<unsigned>(_mm_movemask_epi8(bytes));
    size_t size = lead;
    if (Scanner::kCased) {
      const unsigned upper = below(bytes, 'A', 26) >> lead;
      const auto num_upper = static_cast<unsigned>(__builtin_ctz(~upper));
      const unsigned lower = below(bytes, 'a', 26) >> (lead + num_upper);
      size += num_upper + static_cast<unsigned>(__builtin_ctz(~lower));
    } else {
      const unsigned letters = below(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 26) >> lead;
      size += static_cast<unsigned>(__builtin_ctz(~letters));
    }
    return size > lead && size <= kInlineBytes && (high >> size & 1) == 0 ? size : 0;
  }

  template <class Scanner, bool kQuoteFirst>
  void add_words(const char* p, const char* end) {
    while (p < end) {
      if (end - p > 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        const size_t size = ascii_word<Scanner, kQuoteFirst>(bytes, static_cast<unsigned char>(*p));
        if (size != 0 && !(Scanner::kSuffix && p[size] == '\'')) {
          const WordKey key = key_of(bytes, size);
          if (const WordCache::Entry* known = cache_.find(key)) {
            add_known(p, *known);
          } else {
            add_new(p, p + size, key);
          }
          p += size;
          continue;
        }
      }
      const char* q = Scanner::next(p, end);
      if (q == nullptr) {  // a gap up to the next match
        q = p;
        do {
          q += utf8_size(static_cast<unsigned char>(*q));
        } while (q < end && Scanner::next(q, end) == nullptr);
      }
      add_word(p, q);
      p = q;
    }
  }

  void add_word(const char* begin, const char* end) {
    const auto size = static_cast<size_t>(end - begin);
    if (size <= kInlineBytes) {
      __m128i bytes;
      if (text_end_ - begin >= 16) {
        bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(begin));
      } else {
        alignas(16) char padded[16] = {};
        std::memcpy(padded, begin, size);
        bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(padded));
      }
      const WordKey key = key_of(bytes, size);
      if (const WordCache::Entry* known = cache_.find(key)) {
        add_known(begin, *known);
      } else {
        add_new(begin, end, key);
      }
      return;
    }
    add_long(begin, end);
  }

  void add_known(const char* begin, const WordCache::Entry& known) {
    std::memcpy(out_, known.ids, sizeof(known.ids));
    advance(begin, known.n);
  }

  // `n` ids, at most kSlack, were written to the output.
  void advance(const char* begin, size_t n) {
    if (with_ranges_ == WithRanges::kYes) {
      add_ranges(begin, n);
    }
    out_ += n;
    if (out_ >= out_end_) {
      flush();
    }
  }

  void add_new(const char* begin, const char* end, const WordKey& key) {
    const std::string_view word(begin, static_cast<size_t>(end - begin));
    const size_t n = encode_short(word, out_);
    if (n <= kInlineIds) {
      cache_.add(key, out_, n);
      advance(begin, n);
    } else {
      add_long(begin, end);
    }
  }

  size_t encode_short(std::string_view word, int32_t* out) const {
    if (bpe_.whole_words_ == WholeWords::kLookedUp) {
      const int32_t id = bpe_.tokens_.get(word);
      if (id != TokenMap::kNone) {
        *out = id;
        return 1;
      }
    }
    return bpe_.merge_short(word, out);
  }

  void add_long(const char* begin, const char* end) {
    const std::string_view word(begin, static_cast<size_t>(end - begin));
    if (word.size() > kCachedBytes) {
      cache_.word().clear();
      bpe_.encode_word(word, cache_.word());
      add_ids(begin, cache_.word().data(), cache_.word().size());
      return;
    }
    const uint64_t hash = hash_bytes(word) * kMix;
    size_t n = 0;
    if (const int32_t* known = cache_.find_long(word, hash, n)) {
      add_ids(begin, known, n);
      return;
    }
    cache_.word().clear();
    bpe_.encode_word(word, cache_.word());
    cache_.add_long(word, hash, cache_.word().data(), cache_.word().size());
    add_ids(begin, cache_.word().data(), cache_.word().size());
  }

  void add_ids(const char* begin, const int32_t* ids, size_t n) {
    while (n > 0) {
      const size_t part = std::min(n, kSlack);
      std::copy(ids, ids + part, out_);
      const char* next = begin;
      for (size_t i = 0; i < part; ++i) {
        next += bpe_.size_of(ids[i]);
      }
      advance(begin, part);
      begin = next;
      ids += part;
      n -= part;
    }
  }

  void add_ranges(const char* begin, size_t n) {
    ByteRange* range = cache_.ranges().data() + (out_ - cache_.output().data());
    for (size_t i = 0; i < n; ++i) {
      const char* end = begin + bpe_.size_of(out_[i]);
      const char* first = begin;
      while (!is_utf8_start(*first)) {
        --first;
      }
      const char* last = end;
      while (last < text_end_ && !is_utf8_start(*last)) {
        ++last;
      }
      range[i] = {static_cast<uint64_t>(first - text_begin_),
                  static_cast<uint64_t>(last - text_begin_)};
      begin = end;
    }
  }

  void flush() {
    int32_t* first = cache_.output().data();
    if (out_ > first) {
      receiver_.receive(first,
                        with_ranges_ == WithRanges::kYes ? cache_.ranges().data() : nullptr,
                        static_cast<size_t>(out_ - first));
    }
    out_ = first;
  }

  const ByteBpe& bpe_;
  WordCache& cache_;
  const char* text_begin_;
  const char* text_end_;
  const std::vector<SplitPattern>& patterns_;
  WithRanges with_ranges_;
  TokenReceiver& receiver_;
  int32_t* out_ = nullptr;
  int32_t* out_end_ = nullptr;
};

ByteBpe::ByteBpe(TokenMap tokens, const std::vector<MergeRule>& rules, WholeWords whole_words)
    : tokens_(std::move(tokens)),
      whole_words_(whole_words),
      merges_(rules),
      byte_pairs_(size_t{256} * 256) {
  int32_t largest = -1;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    largest = std::max(largest, tokens_.id(i));
  }
  sizes_.resize(static_cast<size_t>(largest + 1));
  for (size_t i = 0; i < tokens_.size(); ++i) {
    sizes_[static_cast<size_t>(tokens_.id(i))] = static_cast<uint32_t>(tokens_.token(i).size());
  }
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    byte_ids_[byte] = tokens_.get({&c, 1});
  }
  has_byte_ids_ = !missing_byte();
  for (size_t pair = 0; pair < byte_pairs_.size(); ++pair) {
    const int32_t left = byte_ids_[pair >> 8];
    const int32_t right = byte_ids_[pair & 255];
    if (left != TokenMap::kNone && right != TokenMap::kNone) {
      byte_pairs_[pair] = merges_.find(left, right);
    }
  }
}

ByteBpe::~ByteBpe() = default;

bool ByteBpe::has_all_bytes(std::string_view text) const {
  return has_byte_ids_ || std::all_of(text.begin(), text.end(), [this](char c) {
           return byte_ids_[static_cast<unsigned char>(c)] != TokenMap::kNone;
         });
}

std::optional<unsigned char> ByteBpe::missing_byte() const {
  const auto missing = std::find(byte_ids_.begin(), byte_ids_.end(), TokenMap::kNone);
  return missing == byte_ids_.end()
             ? std::nullopt
             : std::optional(static_cast<unsigned char>(missing - byte_ids_.begin()));
}

// Merges the pair of the lowest rank, the leftmost first, until there is none.
size_t ByteBpe::merge_short(std::string_view word, int32_t* out) const {
  std::array<MergeTable::Merged, kShortWord> pairs;  // of a symbol and the next one
  size_t n = word.size();
  for (size_t i = 0; i < n; ++i) {
    const auto byte = static_cast<unsigned char>(word[i]);
    out[i] = byte_ids_[byte];
    if (i + 1 < n) {
      pairs[i] =
          byte_pairs_[static_cast<size_t>(byte) << 8 | static_cast<unsigned char>(word[i + 1])];
    }
  }
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      best = pairs[i].rank < pairs[best].rank ? i : best;
    }
    if (pairs[best].rank == MergeTable::kNoRank) {
      break;
    }
    out[best] = pairs[best].id;
    --n;
    for (size_t i = best + 1; i < n; ++i) {
      out[i] = out[i + 1];
    }
    for (size_t i = best; i + 1 < n; ++i) {
      pairs[i] = pairs[i + 1];
    }
    if (best > 0) {
      pairs[best - 1] = merges_.find(out[best - 1], out[best]);
    }
    if (best + 1 < n) {
      pairs[best] = merges_.find(out[best], out[best + 1]);
    }
  }
  return n;
}

void ByteBpe::encode_word(std::string_view word, std::vector<int32_t>& out) const {
  if (word.empty()) {
    return;
  }
  if (whole_words_ == WholeWords::kLookedUp) {
    const int32_t id = tokens_.get(word);
    if (id != TokenMap::kNone) {
      out.push_back(id);
      return;
    }
  }
  if (word.size() > kShortWord) {
    std::vector<MergeSymbol> symbols;
    symbols.reserve(word.size());
    for (const char c : word) {
      symbols.push_back({byte_ids_[static_cast<unsigned char>(c)], 1});
    }
    merges_.merge(symbols);
    for (const MergeSymbol& symbol : symbols) {
      out.push_back(symbol.id);
    }
    return;
  }
  std::array<int32_t, kShortWord> ids;
  const size_t n = merge_short(word, ids.data());
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<long>(n));
}

std::unique_ptr<WordCache> ByteBpe::take_cache() const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!caches_.empty()) {
      std::unique_ptr<WordCache> cache = std::move(caches_.back());
      caches_.pop_back();
      return cache;
    }
  }
  return std::make_unique<WordCache>();
}

void ByteBpe::give_cache(std::unique_ptr<WordCache> cache) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  caches_.push_back(std::move(cache));
}

void ByteBpe::encode(std::string_view text,
                     size_t begin,
                     size_t end,
                     const std::vector<SplitPattern>& patterns,
                     WithRanges with_ranges,
                     TokenReceiver& receiver) const {
  if (begin >= end) {
    return;
  }
  std::unique_ptr<WordCache> cache = take_cache();
  ByteBpeCall(*this, *cache, text, patterns, with_ranges, receiver)
      .run(text.data() + begin, text.data() + end);
  give_cache(std::move(cache));
}

}  // namespace tenon
