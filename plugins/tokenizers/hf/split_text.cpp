// SPDX-License-Identifier: Apache-2.0
#include "split_text.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <limits>

namespace tenon {
namespace {

// Unicode forms and bytes as characters make at most 36 bytes of one. A text that grows more grows
// without bound, by steps that replace a letter by several.
constexpr size_t kMostGrowth = 64;
constexpr size_t kAlwaysBytes = size_t{1} << 20;

}  // namespace

SplitText::SplitText(std::string_view original)
    : most_(std::min<size_t>(original.size() * kMostGrowth + kAlwaysBytes,
                             std::numeric_limits<uint32_t>::max())),
      text_(original) {
  constexpr size_t kMost = size_t{1} << 31;
  if (original.size() >= kMost) {
    TENON_FAIL(TENON_INVALID,
               "hf.text_too_long",
               "the text has ",
               original.size(),
               " bytes (expected less than 2 GiB); split it");
  }
  const auto size = static_cast<uint32_t>(original.size());
  origins_.reserve(size);
  for (uint32_t i = 0; i < size;) {
    const auto next = i + static_cast<uint32_t>(utf8_size(static_cast<unsigned char>(original[i])));
    origins_.insert(origins_.end(), next - i, Origin{i, next});
    i = next;
  }
  if (size > 0) {
    parts_.push_back({0, size, 0, SplitPart::kText});
  }
}

void SplitText::fail_too_long(size_t most) {
  TENON_FAIL(TENON_INVALID,
             "hf.text_too_long",
             "the normalizers of the tokenizer.json make more than ",
             most,
             " bytes of a text; correct its \"normalizer\"");
}

Origin SplitText::origin_of(const SplitPart& part, size_t begin, size_t end) const {
  if (begin < end) {
    return {origins_[part.begin + begin].begin, origins_[part.begin + end - 1].end};
  }
  const size_t size = part.end - part.begin;
  const uint32_t at = begin < size ? origins_[part.begin + begin].begin
                      : size > 0   ? origins_[part.begin + size - 1].end
                                   : part.start;
  return {at, at};
}

void SplitText::apply(const SplitPart& part,
                      const RewrittenCodes& codes,
                      size_t removed,
                      Target& target) const {
  size_t at = part.begin;  // the next code point of the old text
  const auto skip = [&] {
    if (at < part.end) {
      at += utf8_size(static_cast<unsigned char>(text_[at]));
    }
  };
  for (size_t i = 0; i < removed; ++i) {
    skip();
  }
  for (const RewrittenCode& code : codes) {
    Origin origin{part.start, part.start};
    if (code.change > 0) {
      if (at > part.begin) {
        origin = origins_[at - 1];
      }
    } else if (part.begin < part.end) {
      origin = origins_[at < part.end ? at : part.end - 1];
    }
    if (code.change <= 0) {
      skip();
      for (int i = code.change; i < 0; ++i) {
        skip();
      }
    }
    const size_t before = target.text.size();
    if (before + 4 > target.most) {
      fail_too_long(target.most);
    }
    utf8_append(target.text, code.code);
    target.origins.insert(target.origins.end(), target.text.size() - before, origin);
  }
}

}  // namespace tenon
