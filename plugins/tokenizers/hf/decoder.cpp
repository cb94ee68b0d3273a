// SPDX-License-Identifier: Apache-2.0
#include "decoder.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <utility>

#include "byte_level.hpp"
#include "normalizer.hpp"

namespace tenon {
namespace {

std::string replaced(const std::string& text, std::string_view old, std::string_view replacement) {
  std::string out;
  if (old.empty()) {  // between all characters, and around them
    for (size_t i = 0; i < text.size(); ++i) {
      if (is_utf8_start(text[i])) {
        out += replacement;
      }
      out += text[i];
    }
    return out.append(replacement);
  }
  size_t done = 0;
  find_literal(text, old, [&](size_t begin, size_t end) {
    out.append(text, done, begin - done).append(replacement);
    done = end;
  });
  return out.append(text, done);
}

// Spaces before punctuation and English contractions.
std::string cleaned_up(std::string text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules = {
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [old, replacement] : kRules) {
    text = replaced(text, old, replacement);
  }
  return text;
}

// The byte of "<0x0A>"; -1 for another text.
int byte_of_token(const std::string& token) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  if (token.size() != 6 || token.rfind("<0x", 0) != 0 || token[5] != '>') {
    return -1;
  }
  // A sign is accepted, as in `tokenizers`.
  if (token[3] == '+') {
    return digit(token[4]);
  }
  const int high = digit(token[3]);
  const int low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::vector<std::string> with_bytes_decoded(const std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string bytes;
  const auto add_bytes = [&] {
    if (invalid_utf8(bytes) == kNoOffset) {
      if (!bytes.empty()) {
        out.push_back(bytes);
      }
    } else {
      out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    }
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    const int byte = byte_of_token(token);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
    } else {
      add_bytes();
      out.push_back(token);
    }
  }
  add_bytes();
  return out;
}

std::string stripped(const std::string& token, char32_t character, size_t at_start, size_t at_end) {
  std::vector<size_t> begins;  // of code points
  for (size_t i = 0; i < token.size(); i += utf8_size(static_cast<unsigned char>(token[i]))) {
    begins.push_back(i);
  }
  size_t first = 0;
  while (first < std::min(at_start, begins.size()) &&
         utf8_read(token.data() + begins[first]) == character) {
    ++first;
  }
  size_t last = begins.size();
  for (size_t i = 0; i < at_end && last > 0; ++i) {
    if (utf8_read(token.data() + begins[last - 1]) != character) {
      break;
    }
    --last;
  }
  if (first >= last) {
    return "";
  }
  const size_t end = last < begins.size() ? begins[last] : token.size();
  return token.substr(begins[first], end - begins[first]);
}

}  // namespace

void Decoder::add(const JsonNode& node, int depth) {
  if (depth > kMostNested) {
    node.fail("is nested too deeply (expected at most ", kMostNested, " sequences)");
  }
  const JsonNode type_node = node.at("type");
  const std::string type = type_node.string();
  Step step;
  if (type == "Sequence") {
    node.allow_only({"type", "decoders"});
    const JsonNode list = node.at("decoders");
    for (size_t i = 0; i < list.array_size(); ++i) {
      add(list.at(i), depth + 1);
    }
    return;
  }
  if (type == "ByteLevel") {
    node.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    step.kind = Kind::kByteLevel;
  } else if (type == "Replace") {
    node.allow_only({"type", "pattern", "content"});
    step.kind = Kind::kReplace;
    step.text = node.at("content").string();
    constexpr size_t kMostContent = size_t{1} << 16;
    if (step.text.size() > kMostContent) {
      node.at("content").fail(
          "has ", step.text.size(), " bytes (expected at most ", kMostContent, ")");
    }
    const auto [text, is_regex] = read_pattern(node.at("pattern"));
    if (!is_regex && !text.empty()) {
      step.literal = text;
    } else {
      step.regex = std::make_shared<const Regex>(text, "hf.pattern", node.at("pattern").name());
    }
  } else if (type == "ByteFallback") {
    node.allow_only({"type"});
    step.kind = Kind::kByteFallback;
  } else if (type == "Fuse") {
    node.allow_only({"type"});
    step.kind = Kind::kFuse;
  } else if (type == "Strip") {
    node.allow_only({"type", "content", "start", "stop"});
    step.kind = Kind::kStrip;
    step.character = node.at("content").code_point();
    step.at_start = static_cast<size_t>(node.at("start").integer(0, INT32_MAX));
    step.at_end = static_cast<size_t>(node.at("stop").integer(0, INT32_MAX));
  } else if (type == "Metaspace") {
    node.allow_only(
        {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    step.kind = Kind::kMetaspace;
    step.character = node.at("replacement").code_point();
    const bool adds = node.boolean_or("add_prefix_space", true);
    step.drops_first = adds && node.string_or("prepend_scheme", "always") != "never";
  } else if (type == "WordPiece") {
    node.allow_only({"type", "prefix", "cleanup"});
    step.kind = Kind::kWordPiece;
    step.text = node.at("prefix").string();
    step.cleans_up = node.at("cleanup").boolean();
  } else if (type == "BPEDecoder") {
    node.allow_only({"type", "suffix"});
    step.kind = Kind::kBpe;
    step.text = node.at("suffix").string();
  } else if (type == "CTC") {
    node.allow_only({"type", "pad_token", "word_delimiter_token", "cleanup"});
    step.kind = Kind::kCtc;
    step.text = node.at("pad_token").string();
    step.delimiter = node.at("word_delimiter_token").string();
    step.cleans_up = node.at("cleanup").boolean();
  } else {
    type_node.fail(not_supported(type,
                                 {"BPEDecoder",
                                  "ByteFallback",
                                  "ByteLevel",
                                  "CTC",
                                  "Fuse",
                                  "Metaspace",
                                  "Replace",
                                  "Sequence",
                                  "Strip",
                                  "WordPiece"}));
  }
  if (steps_.size() == kMostSteps) {
    node.fail("is one step too many (expected at most ", kMostSteps, ")");
  }
  steps_.push_back(std::move(step));
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  // Steps that replace a letter by several could grow without bound.
  constexpr size_t kMostGrowth = 64;
  constexpr size_t kAlwaysBytes = size_t{1} << 20;
  const auto num_bytes = [&tokens] {
    return std::accumulate(
        tokens.begin(), tokens.end(), size_t{0}, [](size_t sum, const std::string& token) {
          return sum + token.size();
        });
  };
  const size_t most = num_bytes() * kMostGrowth + kAlwaysBytes;
  for (const Step& step : steps_) {
    run(step, tokens);
    if (num_bytes() > most) {
      TENON_FAIL(TENON_INVALID,
                 "hf.text_too_long",
                 "the decoders of the tokenizer.json make more than ",
                 most,
                 " bytes of the tokens; correct its \"decoder\"");
    }
  }
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    out += (i > 0 && !is_there_ ? " " : "") + tokens[i];
  }
  return out;
}

void Decoder::run(const Step& step, std::vector<std::string>& tokens) {
  switch (step.kind) {
    case Kind::kByteLevel: {
      std::string bytes;
      for (const std::string& token : tokens) {
        if (!append_level_bytes(bytes, token)) {
          bytes += token;
        }
      }
      std::string text;
      append_lossy_utf8(text, bytes);
      tokens.assign(1, std::move(text));
      break;
    }
    case Kind::kReplace:
      for (std::string& token : tokens) {
        if (step.regex == nullptr) {
          token = replaced(token, step.literal, step.text);
          continue;
        }
        std::string out;
        size_t done = 0;
        step.regex->find_all(token, [&](size_t begin, size_t end) {
          out.append(token, done, begin - done).append(step.text);
          done = end;
        });
        token = out.append(token, done);
      }
      break;
    case Kind::kByteFallback:
      tokens = with_bytes_decoded(tokens);
      break;
    case Kind::kFuse: {
      std::string text;
      for (const std::string& token : tokens) {
        text += token;
      }
      tokens.assign(1, std::move(text));
      break;
    }
    case Kind::kStrip:
      for (std::string& token : tokens) {
        token = stripped(token, step.character, step.at_start, step.at_end);
      }
      break;
    case Kind::kMetaspace:
      for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] =
            replaced(tokens[i], utf8_of(step.character), i == 0 && step.drops_first ? "" : " ");
      }
      break;
    case Kind::kWordPiece:
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (i > 0) {
          tokens[i] = tokens[i].rfind(step.text, 0) == 0 ? tokens[i].substr(step.text.size())
                                                         : " " + tokens[i];
        }
        if (step.cleans_up) {
          tokens[i] = cleaned_up(tokens[i]);
        }
      }
      break;
    case Kind::kBpe:
      for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = replaced(tokens[i], step.text, i + 1 == tokens.size() ? "" : " ");
      }
      break;
    case Kind::kCtc: {
      tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
      std::vector<std::string> out;
      for (const std::string& token : tokens) {
        std::string text = replaced(token, step.text, "");
        if (step.cleans_up) {
          text = replaced(cleaned_up(text), step.delimiter, " ");
        }
        if (!text.empty()) {
          out.push_back(text);
        }
      }
      tokens = std::move(out);
      break;
    }
  }
}

}  // namespace tenon
