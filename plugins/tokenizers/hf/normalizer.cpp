// SPDX-License-Identifier: Apache-2.0
#include "normalizer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "../engine/unicode_table.hpp"
#include "byte_level.hpp"

namespace tenon {
namespace {

// Calls each(code) for each code point.
template <class Each>
void for_codes(std::string_view text, Each&& each) {
  for (size_t i = 0; i < text.size();) {
    each(utf8_read(text.data() + i));
    i += utf8_size(static_cast<unsigned char>(text[i]));
  }
}

// Removes code points. Returns as SplitText::rewrite wants.
template <class Keep>
int64_t filter(std::string_view text, RewrittenCodes& out, Keep&& keep) {
  int64_t removed_at_start = 0;
  int removed = 0;
  bool is_changed = false;
  for_codes(text, [&](char32_t code) {
    if (!keep(code)) {
      ++removed;
      is_changed = true;
      return;
    }
    if (out.empty()) {
      removed_at_start = removed;
    } else {
      out.back().change = -removed;
    }
    out.push_back({code, 0});
    removed = 0;
  });
  if (!out.empty()) {
    out.back().change = -removed;
  }
  return is_changed ? removed_at_start : SplitText::kUnchanged;
}

// Replaces code points one by one.
template <class Map>
int64_t map_codes(std::string_view text, RewrittenCodes& out, Map&& map) {
  bool is_changed = false;
  for_codes(text, [&](char32_t code) {
    const char32_t mapped = map(code);
    is_changed = is_changed || mapped != code;
    out.push_back({mapped, 0});
  });
  return is_changed ? 0 : SplitText::kUnchanged;
}

int64_t lowercase(std::string_view text, RewrittenCodes& out) {
  bool is_changed = false;
  for_codes(text, [&](char32_t code) {
    if (code < 0x80) {
      const bool is_upper = code >= 'A' && code <= 'Z';
      is_changed = is_changed || is_upper;
      out.push_back({is_upper ? code + 0x20 : code, 0});
      return;
    }
    const std::u32string_view mapped = lowercase_of(code);
    if (mapped.empty()) {
      out.push_back({code, 0});
      return;
    }
    is_changed = true;
    for (size_t i = 0; i < mapped.size(); ++i) {
      out.push_back({mapped[i], i > 0 ? 1 : 0});
    }
  });
  return is_changed ? 0 : SplitText::kUnchanged;
}

bool is_chinese(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

bool is_space(char32_t code) {
  return (flags_of(code) & kSpace) != 0;
}

int64_t put_spaces_around_chinese(std::string_view text, RewrittenCodes& out) {
  bool is_changed = false;
  for_codes(text, [&](char32_t code) {
    if (is_chinese(code)) {
      is_changed = true;
      out.insert(out.end(), {{U' ', 0}, {code, 1}, {U' ', 1}});
    } else {
      out.push_back({code, 0});
    }
  });
  return is_changed ? 0 : SplitText::kUnchanged;
}

int64_t strip(std::string_view text, bool left, bool right, RewrittenCodes& out) {
  for_codes(text, [&](char32_t code) { out.push_back({code, 0}); });
  const auto count = [](auto begin, auto end) {
    return std::find_if_not(begin, end, [](const RewrittenCode& c) { return is_space(c.code); }) -
           begin;
  };
  const long leading = left ? count(out.begin(), out.end()) : 0;
  const long trailing = right ? count(out.rbegin(), out.rend()) : 0;
  if (leading == 0 && trailing == 0) {
    return SplitText::kUnchanged;
  }
  const auto size = static_cast<long>(out.size());
  out.erase(out.begin() + std::max(leading, size - trailing), out.end());
  out.erase(out.begin(), out.begin() + std::min(leading, static_cast<long>(out.size())));
  return leading;
}

char32_t nmt_space(char32_t code) {
  const bool is_mapped = code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D ||
                         code == 0x1680 || (code >= 0x200B && code <= 0x200F) || code == 0x2028 ||
                         code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
  return is_mapped ? U' ' : code;
}

bool is_kept_by_nmt(char32_t code) {
  return !((code >= 0x01 && code <= 0x08) || code == 0x0B || (code >= 0x0E && code <= 0x1F) ||
           code == 0x7F || code == 0x8F || code == 0x9F);
}

int64_t apply_char_map(std::string_view text, const CharMap& map, RewrittenCodes& out) {
  bool is_changed = false;
  const auto put = [&](std::string_view old, std::string_view replacement) {
    constexpr size_t kMostReplacement = 1024;
    if (replacement.size() > kMostReplacement) {
      TENON_FAIL(TENON_INVALID,
                 "hf.text_too_long",
                 "the precompiled_charsmap replaces a character by ",
                 replacement.size(),
                 " bytes (expected at most ",
                 kMostReplacement,
                 ")");
    }
    is_changed = true;
    int old_count = 0;
    for_codes(old, [&](char32_t) { ++old_count; });
    int new_count = 0;
    for_codes(replacement, [&](char32_t code) {
      out.push_back({code, 0});
      ++new_count;
    });
    const int added = new_count - old_count;
    for (int i = 0; i < added; ++i) {
      out[out.size() - 1 - static_cast<size_t>(i)].change = 1;
    }
    if (added < 0 && !out.empty()) {
      out.back().change += added;
    }
  };
  constexpr size_t kMostBytes = 5;  // of a cluster that is replaced as a whole
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = grapheme_end(text, begin);
    const std::string_view cluster = text.substr(begin, end - begin);
    begin = end;
    if (cluster.size() <= kMostBytes) {
      if (const auto found = map.find(cluster)) {
        put(cluster, *found);
        continue;
      }
    }
    for (size_t i = 0; i < cluster.size();) {
      const std::string_view one =
          cluster.substr(i, utf8_size(static_cast<unsigned char>(cluster[i])));
      if (const auto found = map.find(one)) {
        put(one, *found);
      } else {
        out.push_back({utf8_read(one.data()), 0});
      }
      i += one.size();
    }
  }
  return is_changed ? 0 : SplitText::kUnchanged;
}

}  // namespace

std::pair<std::string, bool> read_pattern(const JsonNode& node) {
  if (const auto text = node.find("String")) {
    return {text->string(), false};
  }
  if (const auto text = node.find("Regex")) {
    return {text->string(), true};
  }
  node.fail("has neither \"String\" nor \"Regex\"");
}

CharMap::CharMap(const JsonNode& node) {
  const std::optional<std::string> decoded = base64_bytes(node.string());
  if (!decoded) {
    node.fail("is not base64");
  }
  const std::string& bytes = *decoded;
  const auto read = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) {
      value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    }
    return value;
  };
  if (bytes.size() < 4 || read(0) > bytes.size() - 4 || read(0) < 4) {
    node.fail("is no map of SentencePiece: it has ", bytes.size(), " bytes and a wrong size");
  }
  const size_t num_units = read(0) / 4;
  for (size_t i = 0; i < num_units; ++i) {
    units_.push_back(read(4 + 4 * i));
  }
  replacements_ = bytes.substr(4 + num_units * 4);
  if (invalid_utf8(replacements_) != kNoOffset) {
    node.fail("is no map of SentencePiece: its replacements are not UTF-8");
  }
}

std::optional<std::string_view> CharMap::find(std::string_view text) const {
  const auto offset = [](uint32_t unit) {
    return static_cast<size_t>(unit >> 10) << ((unit & 1u << 9) >> 6);
  };
  size_t at = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    at ^= byte;
    if (byte == 0 || at >= units_.size()) {
      return std::nullopt;
    }
    const uint32_t unit = units_[at];
    if ((unit & (1u << 31 | 0xFF)) != byte) {
      return std::nullopt;
    }
    at ^= offset(unit);
    if ((unit >> 8 & 1) == 1) {
      if (at >= units_.size()) {
        return std::nullopt;
      }
      const size_t begin = units_[at] & ~(1u << 31);
      if (begin > replacements_.size()) {
        return std::nullopt;
      }
      const std::string_view rest = std::string_view(replacements_).substr(begin);
      return rest.substr(0, rest.find('\0'));
    }
  }
  return std::nullopt;
}

void Normalizer::add(const JsonNode& node, int depth) {
  if (depth > kMostNested) {
    node.fail("is nested too deeply (expected at most ", kMostNested, " sequences)");
  }
  const JsonNode type_node = node.at("type");
  const std::string type = type_node.string();
  Step step;
  if (type == "Sequence") {
    node.allow_only({"type", "normalizers"});
    const JsonNode list = node.at("normalizers");
    for (size_t i = 0; i < list.array_size(); ++i) {
      add(list.at(i), depth + 1);
    }
    return;
  }
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    node.allow_only({"type"});
    step.kind = Kind::kForm;
    step.form = type == "NFC"    ? UnicodeForm::kNfc
                : type == "NFD"  ? UnicodeForm::kNfd
                : type == "NFKC" ? UnicodeForm::kNfkc
                                 : UnicodeForm::kNfkd;
  } else if (type == "Lowercase") {
    node.allow_only({"type"});
    step.kind = Kind::kLowercase;
  } else if (type == "Strip") {
    node.allow_only({"type", "strip_left", "strip_right"});
    step.kind = Kind::kStrip;
    step.strip_left = node.at("strip_left").boolean();
    step.strip_right = node.at("strip_right").boolean();
  } else if (type == "StripAccents") {
    node.allow_only({"type"});
    step.kind = Kind::kStripAccents;
  } else if (type == "Replace") {
    node.allow_only({"type", "pattern", "content"});
    step.kind = Kind::kReplace;
    const auto [text, is_regex] = read_pattern(node.at("pattern"));
    step.content = node.at("content").string();
    if (!is_regex && !text.empty()) {
      step.literal = text;
    } else {
      step.regex = std::make_shared<const Regex>(text, "hf.pattern", node.at("pattern").name());
    }
  } else if (type == "Prepend") {
    node.allow_only({"type", "prepend"});
    step.kind = Kind::kPrepend;
    step.content = node.at("prepend").string();
  } else if (type == "Precompiled") {
    node.allow_only({"type", "precompiled_charsmap"});
    step.kind = Kind::kCharMap;
    step.char_map = std::make_shared<const CharMap>(node.at("precompiled_charsmap"));
  } else if (type == "BertNormalizer") {
    node.allow_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
    step.kind = Kind::kBert;
    step.clean_text = node.at("clean_text").boolean();
    step.handle_chinese_chars = node.at("handle_chinese_chars").boolean();
    step.lowercase = node.at("lowercase").boolean();
    step.strip_accents = node.boolean_or("strip_accents", step.lowercase);
  } else if (type == "Nmt") {
    node.allow_only({"type"});
    step.kind = Kind::kNmt;
  } else if (type == "ByteLevel") {
    node.allow_only({"type"});
    step.kind = Kind::kByteLevel;
  } else {
    type_node.fail(not_supported(type,
                                 {"BertNormalizer",
                                  "ByteLevel",
                                  "Lowercase",
                                  "NFC",
                                  "NFD",
                                  "NFKC",
                                  "NFKD",
                                  "Nmt",
                                  "Precompiled",
                                  "Prepend",
                                  "Replace",
                                  "Sequence",
                                  "Strip",
                                  "StripAccents"}));
  }
  if (steps_.size() == kMostSteps) {
    node.fail("is one step too many (expected at most ", kMostSteps, ")");
  }
  steps_.push_back(std::move(step));
}

bool Normalizer::keeps(std::string_view text) const {
  return std::all_of(steps_.begin(), steps_.end(), [&](const Step& step) {
    return step.kind == Kind::kForm && is_surely_in_form(text, step.form);
  });
}

void Normalizer::apply(SplitText& text) const {
  for (const Step& step : steps_) {
    run(step, text);
  }
}

void Normalizer::run(const Step& step, SplitText& text) {
  const auto rewrite = [&](auto&& change) {
    text.rewrite([&](const SplitPart& part, RewrittenCodes& out) {
      return change(text.text_of(part), out);
    });
  };
  const auto rewrite_form = [&](UnicodeForm form) {
    rewrite([&](std::string_view old, RewrittenCodes& out) -> int64_t {
      if (is_surely_in_form(old, form)) {
        return SplitText::kUnchanged;
      }
      normalize_form(old, form, out);
      return 0;
    });
  };
  switch (step.kind) {
    case Kind::kForm:
      rewrite_form(step.form);
      break;
    case Kind::kLowercase:
      rewrite(lowercase);
      break;
    case Kind::kStrip:
      if (step.strip_left) {
        rewrite(
            [](std::string_view old, RewrittenCodes& out) { return strip(old, true, false, out); });
      }
      if (step.strip_right) {
        rewrite(
            [](std::string_view old, RewrittenCodes& out) { return strip(old, false, true, out); });
      }
      break;
    case Kind::kStripAccents:
      rewrite([](std::string_view old, RewrittenCodes& out) {
        return filter(old, out, [](char32_t c) { return (flags_of(c) & kCombining) == 0; });
      });
      break;
    case Kind::kReplace:
      text.replace(step.content, [&](std::string_view old, auto&& replace) {
        if (step.regex != nullptr) {
          step.regex->find_all(old, replace);
        } else {
          find_literal(old, step.literal, replace);
        }
      });
      break;
    case Kind::kPrepend:
      text.prepend(step.content, [](const SplitPart&) { return true; });
      break;
    case Kind::kCharMap:
      rewrite([&](std::string_view old, RewrittenCodes& out) {
        return apply_char_map(old, *step.char_map, out);
      });
      break;
    case Kind::kBert:
      if (step.clean_text) {
        rewrite([](std::string_view old, RewrittenCodes& out) {
          return filter(old, out, [](char32_t c) {
            return c != 0 && c != 0xFFFD && (flags_of(c) & kRemoved) == 0;
          });
        });
        rewrite([](std::string_view old, RewrittenCodes& out) {
          return map_codes(old, out, [](char32_t c) { return is_space(c) ? U' ' : c; });
        });
      }
      if (step.handle_chinese_chars) {
        rewrite(put_spaces_around_chinese);
      }
      if (step.strip_accents) {
        rewrite_form(UnicodeForm::kNfd);
        rewrite([](std::string_view old, RewrittenCodes& out) {
          return filter(old, out, [](char32_t c) { return (flags_of(c) & kMark) == 0; });
        });
      }
      if (step.lowercase) {
        rewrite(lowercase);
      }
      break;
    case Kind::kNmt:
      rewrite([](std::string_view old, RewrittenCodes& out) {
        return filter(old, out, is_kept_by_nmt);
      });
      rewrite(
          [](std::string_view old, RewrittenCodes& out) { return map_codes(old, out, nmt_space); });
      break;
    case Kind::kByteLevel:
      text.rewrite_bytes(byte_level_text);
      break;
  }
}

}  // namespace tenon
