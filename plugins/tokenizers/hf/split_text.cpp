// SPDX-License-Identifier: Apache-2.0
#include "split_text.hpp"

#include <tenon/cpp/guard.hpp>

namespace tenon {

SplitText::SplitText(std::string_view original) : text_(original) {
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
    utf8_append(target.text, code.code);
    target.origins.insert(target.origins.end(), target.text.size() - before, origin);
  }
}

}  // namespace tenon
