// SPDX-License-Identifier: Apache-2.0
#include "host/train/generate/text_stream.hpp"

#include "host/error/utf8.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Each id is one byte.
std::string bytes_of(const std::vector<int32_t>& ids) {
  std::string bytes;
  for (const int32_t id : ids) {
    bytes += static_cast<char>(id);
  }
  return bytes;
}

std::vector<int32_t> ids_of(const std::string& bytes) {
  std::vector<int32_t> ids;
  for (const char byte : bytes) {
    ids.push_back(static_cast<unsigned char>(byte));
  }
  return ids;
}

// All pieces of a text that arrives byte by byte.
std::string streamed(const std::string& text, const std::string& before = "") {
  TextStream stream(bytes_of, ids_of(before));
  std::string all;
  for (const int32_t id : ids_of(text)) {
    const std::string piece = stream.push(id);
    CHECK(is_utf8(piece));
    all += piece;
  }
  return all + stream.finish();
}

}  // namespace

TEST_CASE("text arrives in pieces of whole characters", "[train]") {
  TextStream stream(bytes_of, {});
  CHECK(stream.push('a') == "a");
  CHECK(stream.push(0xC3).empty());
  CHECK(stream.push(0xA9) == "\xC3\xA9");
  CHECK(stream.push(0xF0).empty());
  CHECK(stream.push(0x9F).empty());
  CHECK(stream.push(0x98).empty());
  CHECK(stream.push(0x80) == "\xF0\x9F\x98\x80");
  CHECK(stream.finish().empty());

  // A text that ends within a character.
  CHECK(stream.push(0xE2).empty());
  CHECK(stream.push(0x82).empty());
  CHECK(stream.finish() == "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("a long text is the same as at once, whatever precedes it", "[train]") {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 ";
  }
  CHECK(streamed(text) == text);
  CHECK(streamed(text, "the prompt") == text);
  // Invalid bytes are replaced, and hold nothing back.
  CHECK(streamed("a\xFF b\x80\x80\x80\x80 c\xC3 d") == as_utf8("a\xFF b\x80\x80\x80\x80 c\xC3 d"));
}

TEST_CASE("a tokenizer may write an id differently behind another", "[train]") {
  // Id 1 is a word with a space before it, except at the start of a text.
  const auto decode = [](const std::vector<int32_t>& ids) {
    std::string text;
    for (const int32_t id : ids) {
      text += (text.empty() ? "" : " ") + std::string("w") + std::to_string(id);
    }
    return text;
  };
  TextStream fresh(decode, {});
  CHECK(fresh.push(1) == "w1");
  CHECK(fresh.push(2) == " w2");
  TextStream after(decode, {7, 8});
  CHECK(after.push(1) == " w1");
  std::string all;
  for (int i = 0; i < 300; ++i) {
    all += after.push(1);
  }
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    expected += " w1";
  }
  CHECK(all == expected);
}

}  // namespace tenon
