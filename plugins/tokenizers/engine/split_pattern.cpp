// SPDX-License-Identifier: Apache-2.0
#include "split_pattern.hpp"

#include <array>

namespace tenon {
namespace {

struct KnownPattern {
  std::string_view regex;
  PatternKind kind;
};

constexpr std::string_view kGpt2Text =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Text =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCl100kText =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr std::string_view kQwen2Text =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Text =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200kText =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenText =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeekText =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::array<KnownPattern, 12> kKnown = {{
    {kGpt2Text, PatternKind::kGpt2},
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     PatternKind::kGpt2},
    {kLlama3Text, PatternKind::kCl100k},
    {kCl100kText, PatternKind::kCl100kAtEnd},
    {kQwen2Text, PatternKind::kQwen2},
    {kQwen35Text, PatternKind::kQwen35},
    {kO200kText, PatternKind::kO200k},
    {kTekkenText, PatternKind::kTekken},
    {kDeepSeekText, PatternKind::kDeepSeek},
    {R"(\p{N}{1,3})", PatternKind::kNumbers3},
    {R"(\p{N})", PatternKind::kNumber},
    {"[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+",
     PatternKind::kCjk},
}};

}  // namespace

SplitPattern::SplitPattern(const std::string& regex, const char* id, const std::string& place)
    : kind_(PatternKind::kRegex) {
  std::string text;  // files may have line breaks in brackets as they are, or escaped
  for (const char c : regex) {
    text += c == '\r' ? "\\r" : c == '\n' ? "\\n" : std::string(1, c);
  }
  for (const KnownPattern& known : kKnown) {
    if (known.regex == text) {
      kind_ = known.kind;
      return;
    }
  }
  regex_ = std::make_shared<const Regex>(regex, id, place);
}

std::string_view named_pattern(std::string_view name) {
  struct Named {
    std::string_view name;
    std::string_view regex;
  };
  static constexpr std::array<Named, 7> kNamed = {{{"gpt2", kGpt2Text},
                                                   {"cl100k", kCl100kText},
                                                   {"llama3", kLlama3Text},
                                                   {"qwen2", kQwen2Text},
                                                   {"qwen3_5", kQwen35Text},
                                                   {"o200k", kO200kText},
                                                   {"tekken", kTekkenText}}};
  for (const Named& named : kNamed) {
    if (named.name == name) {
      return named.regex;
    }
  }
  return {};
}

}  // namespace tenon
