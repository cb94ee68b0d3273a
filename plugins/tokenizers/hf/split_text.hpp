// SPDX-License-Identifier: Apache-2.0
//
// A text that is being normalized and split. All parts lie in one buffer, and each byte knows the
// bytes of the original text that it comes from.
// Invariant: parts are in the order of the text, do not overlap, and start and end at code points.
// Threads: for one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../engine/utf8.hpp"

namespace tenon {

// Bytes of the original text.
struct Origin {
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct SplitPart {
  static constexpr int32_t kText = -1;
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t start = 0;     // offset in the original text at which the part was cut off
  int32_t token = kText;  // the added token that it is
};

// A code point of a rewritten part. `change` says which code points of the old part it stands for:
// 0 the next one; 1 none, it was inserted; -N the next one and the N after it.
struct RewrittenCode {
  char32_t code;
  int change;
};
using RewrittenCodes = std::vector<RewrittenCode>;

class SplitText {
 public:
  explicit SplitText(std::string_view original);

  const std::vector<SplitPart>& parts() const { return parts_; }
  std::string_view text_of(const SplitPart& part) const {
    return std::string_view(text_).substr(part.begin, part.end - part.begin);
  }
  // The original bytes of [begin, end) of a part; both are offsets in the part.
  Origin origin_of(const SplitPart& part, size_t begin, size_t end) const;

  // Replaces each text part by parts of it: `split(part, add)` calls add(begin, end) and
  // add(begin, end, token) with offsets in the part. Empty parts are dropped.
  template <class Split>
  void split(Split&& split);

  // Replaces the text of each text part: `rewrite(part, codes)` fills `codes` and returns the
  // number of code points that it removed at the part's start, or kUnchanged.
  static constexpr int64_t kUnchanged = -1;
  template <class Rewrite>
  void rewrite(Rewrite&& rewrite);

  // Replaces matches in text parts: `find(text, replace)` calls replace(begin, end) for each, and
  // all are replaced by `content`.
  template <class Find>
  void replace(std::string_view content, Find&& find);

  // Replaces each byte of text parts by `text_of_byte(byte)`.
  template <class ByteText>
  void rewrite_bytes(ByteText&& text_of_byte);

  // Puts `content` before each text part for which `wanted(part)` holds.
  template <class Wanted>
  void prepend(std::string_view content, Wanted&& wanted);

 private:
  // A buffer under construction.
  struct Target {
    std::string text;
    std::vector<Origin> origins;
    std::vector<SplitPart> parts;
    size_t most = 0;  // bytes
    explicit Target(const SplitText& old) : most(old.most_) {
      text.reserve(old.text_.size());
      origins.reserve(old.origins_.size());
      parts.reserve(old.parts_.size());
    }
    void add(std::string_view bytes, Origin origin) {
      if (bytes.size() > most - text.size()) {
        fail_too_long(most);
      }
      text.append(bytes);
      origins.insert(origins.end(), bytes.size(), origin);
    }
  };

  [[noreturn]] static void fail_too_long(size_t most);
  void copy(const SplitPart& part, size_t begin, size_t end, Target& target) const {
    if (end - begin > target.most - target.text.size()) {
      fail_too_long(target.most);
    }
    target.text.append(text_, part.begin + begin, end - begin);
    target.origins.insert(target.origins.end(),
                          origins_.begin() + static_cast<long>(part.begin + begin),
                          origins_.begin() + static_cast<long>(part.begin + end));
  }
  void finish(const SplitPart& old, size_t begin, Target& target) const {
    target.parts.push_back({static_cast<uint32_t>(begin),
                            static_cast<uint32_t>(target.text.size()),
                            old.start,
                            old.token});
  }
  void take(Target target) {
    text_ = std::move(target.text);
    origins_ = std::move(target.origins);
    parts_ = std::move(target.parts);
  }
  void apply(const SplitPart& part,
             const RewrittenCodes& codes,
             size_t removed,
             Target& target) const;

  size_t most_;  // bytes that normalizing may make of the text
  std::string text_;
  std::vector<Origin> origins_;  // of each byte
  std::vector<SplitPart> parts_;
};

template <class Split>
void SplitText::split(Split&& split) {
  std::vector<SplitPart> parts;
  parts.reserve(parts_.size());
  for (const SplitPart& part : parts_) {
    if (part.token != SplitPart::kText) {
      parts.push_back(part);
      continue;
    }
    const auto add = [&](size_t begin, size_t end, int32_t token = SplitPart::kText) {
      if (begin < end) {
        const size_t first = part.begin + begin;
        parts.push_back({static_cast<uint32_t>(first),
                         static_cast<uint32_t>(part.begin + end),
                         origins_[first].begin,
                         token});
      }
    };
    split(part, add);
  }
  parts_ = std::move(parts);
}

template <class Rewrite>
void SplitText::rewrite(Rewrite&& rewrite) {
  Target target(*this);
  RewrittenCodes codes;
  bool is_changed = false;
  for (const SplitPart& part : parts_) {
    const size_t begin = target.text.size();
    codes.clear();
    const int64_t removed = part.token != SplitPart::kText || part.begin == part.end
                                ? kUnchanged
                                : rewrite(part, codes);
    if (removed == kUnchanged) {
      copy(part, 0, part.end - part.begin, target);
    } else {
      apply(part, codes, static_cast<size_t>(removed), target);
      is_changed = true;
    }
    finish(part, begin, target);
  }
  if (is_changed) {
    take(std::move(target));
  }
}

template <class Find>
void SplitText::replace(std::string_view content, Find&& find) {
  Target target(*this);
  bool is_changed = false;
  for (const SplitPart& part : parts_) {
    const size_t begin = target.text.size();
    size_t done = 0;
    if (part.token == SplitPart::kText && part.begin < part.end) {
      find(text_of(part), [&](size_t match_begin, size_t match_end) {
        copy(part, done, match_begin, target);
        // As for inserted text: it comes from where the byte before it does.
        target.add(
            content,
            match_end == 0 ? Origin{part.start, part.start} : origins_[part.begin + match_end - 1]);
        done = match_end;
        is_changed = true;
      });
    }
    copy(part, done, part.end - part.begin, target);
    finish(part, begin, target);
  }
  if (is_changed) {
    take(std::move(target));
  }
}

template <class ByteText>
void SplitText::rewrite_bytes(ByteText&& text_of_byte) {
  Target target(*this);
  for (const SplitPart& part : parts_) {
    const size_t begin = target.text.size();
    if (part.token != SplitPart::kText) {
      copy(part, 0, part.end - part.begin, target);
    } else {
      for (size_t i = part.begin; i < part.end; ++i) {
        target.add(text_of_byte(static_cast<unsigned char>(text_[i])), origins_[i]);
      }
    }
    finish(part, begin, target);
  }
  take(std::move(target));
}

template <class Wanted>
void SplitText::prepend(std::string_view content, Wanted&& wanted) {
  Target target(*this);
  bool is_changed = false;
  for (const SplitPart& part : parts_) {
    const size_t begin = target.text.size();
    if (part.token == SplitPart::kText && part.begin < part.end && wanted(part)) {
      target.add(content, origins_[part.begin]);
      is_changed = true;
    }
    copy(part, 0, part.end - part.begin, target);
    finish(part, begin, target);
  }
  if (is_changed) {
    take(std::move(target));
  }
}

}  // namespace tenon
