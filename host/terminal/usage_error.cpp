// SPDX-License-Identifier: Apache-2.0
#include "host/terminal/usage_error.hpp"

#include "host/error/error.hpp"
#include "host/error/utf8.hpp"
#include "host/text/formatted.hpp"
#include "host/text/nearest_name.hpp"

#include <charconv>
#include <cstdio>
#include <system_error>

namespace tenon {
namespace {

// "none, cores or numa"
std::string one_of(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace

void fail_usage(const std::string& message) {
  throw Error("usage.bad_option", message);
}

void fail_value(std::string_view option, const std::string& found, const std::string& expected) {
  fail_usage("--" + std::string(option) + ": expected " + expected + ", found " + in_quotes(found));
}

void fail_word(std::string_view option,
               const std::string& found,
               const std::vector<std::string>& words) {
  const std::string hint = did_you_mean(found, words);
  fail_usage("--" + std::string(option) + ": expected " + one_of(words) + ", found " +
             in_quotes(found) + (hint.empty() ? "" : "; " + hint));
}

std::string hint_of(std::string_view written,
                    const std::vector<std::string>& names,
                    const std::string& otherwise) {
  const std::string hint = did_you_mean(written, names);
  return "; " + (hint.empty() ? otherwise : hint);
}

std::string in_quotes(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

std::int64_t read_whole(std::string_view option,
                        const std::string& text,
                        std::int64_t least,
                        std::int64_t most,
                        const std::string& expected) {
  std::int64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), last, number);
  if (failed != std::errc() || stop != last || number < least || number > most) {
    fail_value(option, text, expected);
  }
  return number;
}

std::string not_utf8_text(std::string_view value) {
  char byte[8];
  const std::size_t at = invalid_utf8_at(value);
  std::snprintf(byte, sizeof(byte), "0x%02x", static_cast<unsigned char>(value[at]));
  return formatted(
      "is not valid UTF-8: byte {} of {} is {}; rename the file or folder, or use "
      "another path",
      at + 1,
      in_quotes(as_utf8(std::string(value))),
      std::string_view(byte));
}

}  // namespace tenon
