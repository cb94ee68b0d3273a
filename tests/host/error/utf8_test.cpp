// SPDX-License-Identifier: Apache-2.0
#include "host/error/utf8.hpp"

#include "host/error/error.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// The judgement of another implementation.
bool can_be_json(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("UTF-8 is told from other bytes", "[error]") {
  CHECK(is_utf8(""));
  CHECK(is_utf8("\xc3\xa9"));
  CHECK_FALSE(is_utf8("\xff"));
  CHECK_FALSE(is_utf8("\xc3"));
  CHECK_FALSE(is_utf8("\xed\xa0\x80"));  // a surrogate
}

TEST_CASE("the borders of every range of UTF-8 are judged as another implementation has them",
          "[error]") {
  // Each first byte, with the second and third bytes on both sides of each border.
  constexpr unsigned char kBorders[] = {
      0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};
  std::vector<std::string> tails = {""};
  for (std::size_t from = 0, length = 1; length <= 3; ++length) {
    const std::size_t to = tails.size();
    for (; from < to; ++from) {
      for (const unsigned char byte : kBorders) {
        tails.push_back(tails[from] + static_cast<char>(byte));
      }
    }
  }
  int num_good = 0;
  for (int first = 0; first < 256; ++first) {
    for (const std::string& tail : tails) {
      const std::string text = static_cast<char>(first) + tail;
      const bool is_good = is_utf8(text);
      num_good += is_good ? 1 : 0;
      if (is_good != can_be_json(text)) {
        FAIL("first byte " << first << " with "
                           << nlohmann::json::binary({tail.begin(), tail.end()}));
      }
      if (!is_utf8(as_utf8(text)) || (is_good && as_utf8(text) != text)) {
        FAIL("mended badly: " << nlohmann::json::binary({text.begin(), text.end()}));
      }
    }
  }
  CHECK(num_good > 1000);
}

TEST_CASE("each byte that belongs to no character is replaced, and no other", "[error]") {
  CHECK(as_utf8("caf\xc3\xa9") == "caf\xc3\xa9");
  CHECK(as_utf8("a\xffz") == "a\xEF\xBF\xBDz");
  CHECK(as_utf8("\xe2\x82") == "\xEF\xBF\xBD\xEF\xBF\xBD");  // cut in a character
}

TEST_CASE("a message that quotes foreign bytes is text all the same", "[error]") {
  const Error error("csv.\xff", "data/\xfe.csv is empty");
  CHECK(error.id() == "csv.\xEF\xBF\xBD");
  CHECK(error.message() == "data/\xEF\xBF\xBD.csv is empty");
  CHECK(is_utf8(error.what()));
}

}  // namespace tenon
