// SPDX-License-Identifier: Apache-2.0
//
// The decoders of a tokenizer.json, in the order in which they run: from the texts of tokens to
// text. Threads: after construction, any thread may decode.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../engine/json_node.hpp"
#include "../engine/regex.hpp"

namespace tenon {

class Decoder {
 public:
  Decoder() = default;
  explicit Decoder(const JsonNode& node) : is_there_(true) { add(node, 0); }

  std::string decode(std::vector<std::string> tokens) const;

 private:
  enum class Kind {
    kByteLevel,
    kReplace,
    kByteFallback,
    kFuse,
    kStrip,
    kMetaspace,
    kWordPiece,
    kBpe,
    kCtc
  };
  struct Step {
    Kind kind = Kind::kFuse;
    std::string text;       // content of Replace, prefix, suffix, pad token
    std::string delimiter;  // of CTC
    std::string literal;    // that Replace looks for; empty: regex
    std::shared_ptr<const Regex> regex;
    char32_t character = 0;  // of Strip and Metaspace
    size_t at_start = 0;     // of Strip
    size_t at_end = 0;
    bool cleans_up = false;
    bool drops_first = false;  // Metaspace: the first token's space is not text
  };

  void add(const JsonNode& node, int depth);
  static void run(const Step& step, std::vector<std::string>& tokens);

  bool is_there_ = false;
  std::vector<Step> steps_;
};

}  // namespace tenon
