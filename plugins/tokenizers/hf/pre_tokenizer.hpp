// SPDX-License-Identifier: Apache-2.0
//
// The pre-tokenizers of a tokenizer.json, in the order in which they run.
// Threads: after construction, any thread may split.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../engine/json_node.hpp"
#include "../engine/split_pattern.hpp"
#include "split_text.hpp"

namespace tenon {

class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(const JsonNode& node) { add(node, 0); }

  void apply(SplitText& text) const;

  // The patterns that split a text into words of bytes, one after the other, if that is all the
  // pre-tokenizers do, apart from the byte-level alphabet.
  std::optional<std::vector<SplitPattern>> byte_patterns() const;

 private:
  enum class Kind {
    kByteLevel,
    kSplit,
    kWhitespace,
    kWhitespaceSplit,
    kBert,
    kMetaspace,
    kPunctuation,
    kDigits,
    kDelimiter,
    kScripts,
    kFixedLength
  };
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class Prepend { kFirst, kNever, kAlways };
  struct Step {
    Kind kind = Kind::kSplit;
    Behavior behavior = Behavior::kIsolated;
    bool is_inverted = false;
    bool adds_space = false;  // of ByteLevel
    bool has_regex = true;    // of ByteLevel
    bool splits = true;       // of Metaspace
    Prepend prepend = Prepend::kAlways;
    char32_t character = 0;  // the replacement of Metaspace, the delimiter
    size_t length = 0;
    std::string literal;  // that Split looks for; empty: pattern
    std::optional<SplitPattern> pattern;
  };
  struct Cut {
    size_t begin;
    size_t end;
    bool is_match;
  };

  void add(const JsonNode& node, int depth);
  static Behavior read_behavior(const JsonNode& node);
  static void run(const Step& step, SplitText& text);
  template <class Find>
  static void split(SplitText& text, Behavior behavior, bool is_inverted, Find&& find);
  template <class Holds>
  static void split_at(SplitText& text, Behavior behavior, Holds&& holds);
  static void merge(std::vector<Cut>& cuts, Behavior behavior);

  std::vector<Step> steps_;
};

}  // namespace tenon
