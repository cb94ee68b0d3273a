// SPDX-License-Identifier: Apache-2.0
#include "host/train/generate/text_stream.hpp"

#include "host/error/utf8.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

constexpr size_t kKept = 16;     // ids that the bytes of the next ones may depend on
constexpr size_t kLongest = 64;  // decoding them for each token stays cheap

// Returns the number of bytes at the end that may be the start of a character.
size_t size_of_open_end(std::string_view text) {
  constexpr size_t kMost = 3;
  for (size_t n = 1; n <= std::min(kMost, text.size()); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if (byte >= 0xC2 && byte <= 0xF4) {  // the first byte of a character of several bytes
      const size_t size = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
      return n < size ? n : 0;
    }
    if (byte < 0x80 || byte > 0xBF) {
      return 0;
    }
  }
  return 0;
}

}  // namespace

TextStream::TextStream(Decode decode, const std::vector<int32_t>& before)
    : decode_(std::move(decode)),
      ids_(before.end() - static_cast<std::ptrdiff_t>(std::min(before.size(), kKept)),
           before.end()),
      returned_(ids_.empty() ? std::string() : decode_(ids_)) {}

// Returns the bytes that were not returned yet. A tokenizer may change its last bytes when an id
// follows; what was returned stays.
std::string TextStream::rest_of(const std::string& text) const {
  return text.size() > returned_.size() ? text.substr(returned_.size()) : std::string();
}

void TextStream::forget_old_ids() {
  if (ids_.size() > kLongest) {
    ids_.erase(ids_.begin(), ids_.end() - static_cast<std::ptrdiff_t>(kKept));
    returned_ = decode_(ids_);
  }
}

std::string TextStream::push(int32_t id) {
  ids_.push_back(id);
  std::string rest = rest_of(decode_(ids_));
  const size_t open = size_of_open_end(rest);
  rest.resize(rest.size() - open);
  returned_ += rest;
  if (open == 0) {
    forget_old_ids();
  }
  return as_utf8(std::move(rest));
}

std::string TextStream::finish() {
  std::string rest = ids_.empty() ? std::string() : rest_of(decode_(ids_));
  returned_ += rest;
  return as_utf8(std::move(rest));
}

}  // namespace tenon
