// SPDX-License-Identifier: Apache-2.0
#include "pre_tokenizer.hpp"

#include <algorithm>
#include <utility>

#include "../engine/unicode_table.hpp"
#include "byte_level.hpp"
#include "normalizer.hpp"

namespace tenon {
namespace {

const SplitPattern& gpt2_pattern() {
  static const SplitPattern pattern(PatternKind::kGpt2);
  return pattern;
}

}  // namespace

PreTokenizer::Behavior PreTokenizer::read_behavior(const JsonNode& node) {
  const std::string name = node.string();
  if (name == "Removed") {
    return Behavior::kRemoved;
  }
  if (name == "Isolated") {
    return Behavior::kIsolated;
  }
  if (name == "MergedWithPrevious") {
    return Behavior::kMergedWithPrevious;
  }
  if (name == "MergedWithNext") {
    return Behavior::kMergedWithNext;
  }
  if (name == "Contiguous") {
    return Behavior::kContiguous;
  }
  node.fail(not_supported(
      name, {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}));
}

void PreTokenizer::add(const JsonNode& node, int depth) {
  if (depth > kMostNested) {
    node.fail("is nested too deeply (expected at most ", kMostNested, " sequences)");
  }
  const JsonNode type_node = node.at("type");
  const std::string type = type_node.string();
  Step step;
  if (type == "Sequence") {
    node.allow_only({"type", "pretokenizers"});
    const JsonNode list = node.at("pretokenizers");
    for (size_t i = 0; i < list.array_size(); ++i) {
      add(list.at(i), depth + 1);
    }
    return;
  }
  if (type == "ByteLevel") {
    node.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    step.kind = Kind::kByteLevel;
    step.adds_space = node.at("add_prefix_space").boolean();
    step.has_regex = node.boolean_or("use_regex", true);
  } else if (type == "Split") {
    node.allow_only({"type", "pattern", "behavior", "invert"});
    step.kind = Kind::kSplit;
    step.behavior = read_behavior(node.at("behavior"));
    step.is_inverted = node.at("invert").boolean();
    const auto [text, is_regex] = read_pattern(node.at("pattern"));
    if (is_regex || text.empty()) {
      step.pattern.emplace(text, "hf.pattern", node.at("pattern").name());
    } else {
      step.literal = text;
    }
  } else if (type == "Whitespace") {
    node.allow_only({"type"});
    step.kind = Kind::kWhitespace;
  } else if (type == "WhitespaceSplit") {
    node.allow_only({"type"});
    step.kind = Kind::kWhitespaceSplit;
  } else if (type == "BertPreTokenizer") {
    node.allow_only({"type"});
    step.kind = Kind::kBert;
  } else if (type == "Metaspace") {
    node.allow_only(
        {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    step.kind = Kind::kMetaspace;
    step.character = node.at("replacement").code_point();
    step.splits = node.boolean_or("split", true);
    const std::string scheme = node.string_or("prepend_scheme", "always");
    if (scheme == "first") {
      step.prepend = Prepend::kFirst;
    } else if (scheme == "never") {
      step.prepend = Prepend::kNever;
    } else if (scheme != "always") {
      node.at("prepend_scheme").fail(not_supported(scheme, {"first", "never", "always"}));
    }
    if (!node.boolean_or("add_prefix_space", true) && step.prepend != Prepend::kNever) {
      node.at("add_prefix_space")
          .fail("is false, but \"prepend_scheme\" is \"", scheme, "\" (expected \"never\")");
    }
  } else if (type == "Punctuation") {
    node.allow_only({"type", "behavior"});
    step.kind = Kind::kPunctuation;
    if (const auto behavior = node.find("behavior")) {
      step.behavior = read_behavior(*behavior);
    }
  } else if (type == "Digits") {
    node.allow_only({"type", "individual_digits"});
    step.kind = Kind::kDigits;
    step.behavior =
        node.at("individual_digits").boolean() ? Behavior::kIsolated : Behavior::kContiguous;
  } else if (type == "CharDelimiterSplit") {
    node.allow_only({"type", "delimiter"});
    step.kind = Kind::kDelimiter;
    step.character = node.at("delimiter").code_point();
  } else if (type == "UnicodeScripts") {
    node.allow_only({"type"});
    step.kind = Kind::kScripts;
  } else if (type == "FixedLength") {
    node.allow_only({"type", "length"});
    step.kind = Kind::kFixedLength;
    const auto length = node.find("length");
    step.length = length ? static_cast<size_t>(length->integer(1, INT32_MAX)) : 5;
  } else {
    type_node.fail(not_supported(type,
                                 {"BertPreTokenizer",
                                  "ByteLevel",
                                  "CharDelimiterSplit",
                                  "Digits",
                                  "FixedLength",
                                  "Metaspace",
                                  "Punctuation",
                                  "Sequence",
                                  "Split",
                                  "UnicodeScripts",
                                  "Whitespace",
                                  "WhitespaceSplit"}));
  }
  if (steps_.size() == kMostSteps) {
    node.fail("is one step too many (expected at most ", kMostSteps, ")");
  }
  steps_.push_back(std::move(step));
}

std::optional<std::vector<SplitPattern>> PreTokenizer::byte_patterns() const {
  std::vector<SplitPattern> patterns;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.kind == Kind::kByteLevel && !step.adds_space && i + 1 == steps_.size()) {
      if (step.has_regex) {
        patterns.push_back(gpt2_pattern());
      }
      return patterns;
    }
    // If a match and what lies between matches are separate pieces, it does not matter which is
    // which. A literal would need a pattern.
    if (step.kind == Kind::kSplit && step.behavior == Behavior::kIsolated && step.pattern) {
      patterns.push_back(*step.pattern);
    } else if (step.kind == Kind::kDigits && step.behavior == Behavior::kIsolated) {
      patterns.emplace_back(PatternKind::kDigit);
    } else {
      break;
    }
  }
  return std::nullopt;
}

void PreTokenizer::apply(SplitText& text) const {
  for (const Step& step : steps_) {
    run(step, text);
  }
}

// Joins cuts as the behavior asks.
void PreTokenizer::merge(std::vector<Cut>& cuts, Behavior behavior) {
  std::vector<Cut> merged;
  bool was_match = false;
  if (behavior == Behavior::kMergedWithNext) {
    for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
      if (cut->is_match && !was_match && !merged.empty()) {
        merged.back().begin = cut->begin;
      } else {
        merged.push_back(*cut);
      }
      was_match = cut->is_match;
    }
    std::reverse(merged.begin(), merged.end());
  } else {
    for (const Cut& cut : cuts) {
      const bool joins = behavior == Behavior::kContiguous ? cut.is_match == was_match
                                                           : cut.is_match && !was_match;
      if (joins && !merged.empty()) {
        merged.back().end = cut.end;
      } else {
        merged.push_back(cut);
      }
      was_match = cut.is_match;
    }
  }
  cuts = std::move(merged);
}

template <class Find>
void PreTokenizer::split(SplitText& text, Behavior behavior, bool is_inverted, Find&& find) {
  std::vector<Cut> cuts;
  text.split([&](const SplitPart& part, auto&& add) {
    const std::string_view old = text.text_of(part);
    cuts.clear();
    size_t done = 0;
    find(old, [&](size_t begin, size_t end) {
      if (begin > done) {
        cuts.push_back({done, begin, is_inverted});
      }
      cuts.push_back({begin, end, !is_inverted});
      done = end;
    });
    if (done < old.size()) {
      cuts.push_back({done, old.size(), is_inverted});
    }
    if (behavior != Behavior::kIsolated && behavior != Behavior::kRemoved) {
      merge(cuts, behavior);
    }
    for (const Cut& cut : cuts) {
      if (behavior != Behavior::kRemoved || !cut.is_match) {
        add(cut.begin, cut.end);
      }
    }
  });
}

// Splits at code points; each is a separate match.
template <class Holds>
void PreTokenizer::split_at(SplitText& text, Behavior behavior, Holds&& holds) {
  split(text, behavior, false, [&](std::string_view old, auto&& found) {
    for (size_t i = 0; i < old.size();) {
      const size_t end = i + utf8_size(static_cast<unsigned char>(old[i]));
      if (holds(utf8_read(old.data() + i))) {
        found(i, end);
      }
      i = end;
    }
  });
}

void PreTokenizer::run(const Step& step, SplitText& text) {
  const auto find_pattern = [](const SplitPattern& pattern) {
    return [&pattern](std::string_view old, auto&& found) {
      const char* first = old.data();
      pattern.find_all(first, first + old.size(), [&](const char* begin, const char* end) {
        found(static_cast<size_t>(begin - first), static_cast<size_t>(end - first));
      });
    };
  };
  switch (step.kind) {
    case Kind::kByteLevel:
      if (step.adds_space) {
        text.prepend(" ", [&](const SplitPart& part) { return text.text_of(part)[0] != ' '; });
      }
      if (step.has_regex) {
        split(text, Behavior::kIsolated, false, find_pattern(gpt2_pattern()));
      }
      text.rewrite_bytes(byte_level_text);
      break;
    case Kind::kSplit:
      if (step.pattern) {
        split(text, step.behavior, step.is_inverted, find_pattern(*step.pattern));
      } else {
        split(text, step.behavior, step.is_inverted, [&](std::string_view old, auto&& found) {
          find_literal(old, step.literal, found);
        });
      }
      break;
    case Kind::kWhitespace:
      // What is kept are the matches of \w+|[^\w\s]+.
      split(text, Behavior::kRemoved, true, [](std::string_view old, auto&& found) {
        for (size_t i = 0; i < old.size();) {
          const auto kind_at = [&](size_t at) {
            const uint32_t flags = flags_of(utf8_read(old.data() + at));
            return (flags & kWord) != 0 ? 1 : (flags & kSpace) != 0 ? 0 : 2;
          };
          const int kind = kind_at(i);
          size_t end = i;
          do {
            end += utf8_size(static_cast<unsigned char>(old[end]));
          } while (kind != 0 && end < old.size() && kind_at(end) == kind);
          if (kind != 0) {
            found(i, end);
          }
          i = end;
        }
      });
      break;
    case Kind::kWhitespaceSplit:
      split_at(text, Behavior::kRemoved, [](char32_t code) { return has_flag(code, kSpace); });
      break;
    case Kind::kBert:
      split_at(text, Behavior::kRemoved, [](char32_t code) { return has_flag(code, kSpace); });
      split_at(
          text, Behavior::kIsolated, [](char32_t code) { return has_flag(code, kPunctuation); });
      break;
    case Kind::kMetaspace: {
      const std::string replacement = utf8_of(step.character);
      text.replace(replacement,
                   [](std::string_view old, auto&& replace) { find_literal(old, " ", replace); });
      if (step.prepend != Prepend::kNever) {
        text.prepend(replacement, [&](const SplitPart& part) {
          return text.text_of(part).substr(0, replacement.size()) != replacement &&
                 (step.prepend == Prepend::kAlways || part.start == 0);
        });
      }
      if (step.splits) {
        split_at(
            text, Behavior::kMergedWithNext, [&](char32_t code) { return code == step.character; });
      }
      break;
    }
    case Kind::kPunctuation:
      split_at(text, step.behavior, [](char32_t code) { return has_flag(code, kPunctuation); });
      break;
    case Kind::kDigits:
      split_at(text, step.behavior, [](char32_t code) { return has_flag(code, kNumeric); });
      break;
    case Kind::kDelimiter:
      split_at(text, Behavior::kRemoved, [&](char32_t code) { return code == step.character; });
      break;
    case Kind::kScripts:
      text.split([&](const SplitPart& part, auto&& add) {
        const std::string_view old = text.text_of(part);
        constexpr uint8_t kAny = 0;
        constexpr int kNothing = -1;
        int last = kNothing;
        bool has_begin = false;
        size_t begin = 0;
        for (size_t i = 0; i < old.size();) {
          const uint8_t script = script_of(utf8_read(old.data() + i));
          if (script != kAny && last != script) {
            if (has_begin) {
              add(begin, i);
            }
            begin = i;
            has_begin = true;
          }
          if (script != kAny) {
            last = script;
          }
          i += utf8_size(static_cast<unsigned char>(old[i]));
        }
        if (has_begin) {
          add(begin, old.size());
        }
      });
      break;
    case Kind::kFixedLength:
      text.split([&](const SplitPart& part, auto&& add) {
        const std::string_view old = text.text_of(part);
        for (size_t i = 0; i < old.size();) {
          size_t end = i;
          for (size_t k = 0; k < step.length && end < old.size(); ++k) {
            end += utf8_size(static_cast<unsigned char>(old[end]));
          }
          add(i, end);
          i = end;
        }
      });
      break;
  }
}

}  // namespace tenon
