// SPDX-License-Identifier: Apache-2.0
//
// The normalizers of a tokenizer.json, in the order in which they run.
// Threads: after construction, any thread may normalize.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../engine/json_node.hpp"
#include "../engine/regex.hpp"
#include "split_text.hpp"
#include "unicode_form.hpp"

namespace tenon {

// A normalizer's "precompiled_charsmap" of SentencePiece: a double-array trie and what its entries
// are replaced by.
class CharMap {
 public:
  // Takes the base64 text of a file.
  explicit CharMap(const JsonNode& node);
  // What the first code points of `text` are replaced by, by the shortest entry; nothing if there
  // is no entry.
  std::optional<std::string_view> find(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(const JsonNode& node) { add(node, 0); }

  bool empty() const { return steps_.empty(); }
  void apply(SplitText& text) const;
  // Whether it leaves the text as it is, by a test that may miss some texts.
  bool keeps(std::string_view text) const;

 private:
  enum class Kind {
    kForm,
    kLowercase,
    kStrip,
    kStripAccents,
    kReplace,
    kPrepend,
    kCharMap,
    kBert,
    kNmt,
    kByteLevel
  };
  struct Step {
    Kind kind = Kind::kForm;
    UnicodeForm form = UnicodeForm::kNfc;
    bool strip_left = false;
    bool strip_right = false;
    bool clean_text = false;
    bool handle_chinese_chars = false;
    bool strip_accents = false;
    bool lowercase = false;
    std::string content;  // of Replace and Prepend
    std::string literal;  // that Replace looks for; empty: regex
    std::shared_ptr<const Regex> regex;
    std::shared_ptr<const CharMap> char_map;
  };

  void add(const JsonNode& node, int depth);
  static void run(const Step& step, SplitText& text);

  std::vector<Step> steps_;
};

// Reads {"String": ..} or {"Regex": ..}; returns the text and whether it is a regular expression.
std::pair<std::string, bool> read_pattern(const JsonNode& node);

// Nesting of sequences that is accepted.
constexpr int kMostNested = 32;
// Steps of normalizers, and of pre-tokenizers, that are accepted: far above existing files.
constexpr size_t kMostSteps = 256;

// Calls found(begin, end) for each occurrence of `literal`, from left to right.
template <class Found>
void find_literal(std::string_view text, std::string_view literal, Found&& found) {
  size_t at = 0;
  while ((at = text.find(literal, at)) != std::string_view::npos) {
    found(at, at + literal.size());
    at += literal.size();
  }
}

}  // namespace tenon
