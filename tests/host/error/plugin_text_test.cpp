// SPDX-License-Identifier: Apache-2.0
#include "host/error/plugin_text.hpp"

#include <string>

#include "tests/support/catch.hpp"

using tenon::kMaxPluginName;
using tenon::kMaxPluginText;
using tenon::name_problem;
using tenon::plugin_text;
using tenon::printable_line;
using tenon::printable_text;

TEST_CASE("UTF-8, line breaks and tabs of a plugin's text stay", "[error]") {
  for (const std::string& text : {std::string(),
                                  std::string("plain\n\ttext"),
                                  std::string("Grüße, 数据, \xf0\x9f\x99\x82")}) {
    CHECK(plugin_text(text) == text);
  }
}

TEST_CASE("control characters and invalid bytes of a plugin's text are escaped", "[error]") {
  CHECK(plugin_text("\x1b[31mred\x07") == "\\x1b[31mred\\x07");
  CHECK(plugin_text("a\xff\xc3") == "a\\xff\\xc3");
  CHECK(plugin_text("\xc0\xaf") == "\\xc0\\xaf");           // an overlong form
  CHECK(plugin_text("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(plugin_text("\r\x7f") == "\\x0d\\u007f");
  CHECK(plugin_text("\xc2\x9b"
                    "31m\xc2\xa0") == "\\u009b31m\xc2\xa0");  // one-byte form of ESC [
  CHECK(plugin_text(std::string("a\0b", 3)) == "a\\x00b");
}

TEST_CASE("a printable text keeps its length and its line breaks, a printable line does not",
          "[error]") {
  const std::string text = std::string(2 * kMaxPluginText, 'x') + "\n\t\x1b]0;title\x07";
  CHECK(printable_text(text) == std::string(2 * kMaxPluginText, 'x') + "\n\t\\x1b]0;title\\x07");
  CHECK(printable_line("a\n\tb") == "a\\x0a\\x09b");
  CHECK(printable_line("plain, ü") == "plain, ü");
}

TEST_CASE("printable JSON is JSON of the same value", "[error]") {
  // In JSON, only these control characters may stand in a string as they are.
  const std::string text = "{\"a\x7f\": \"\xc2\x80 \\u001b\"}";
  CHECK(printable_text(text) == "{\"a\\u007f\": \"\\u0080 \\u001b\"}");
}

TEST_CASE("a long text of a plugin is cut between characters", "[error]") {
  CHECK(plugin_text(std::string(kMaxPluginText, 'x')) == std::string(kMaxPluginText, 'x'));
  CHECK(plugin_text(std::string(kMaxPluginText + 7, 'x')) ==
        std::string(kMaxPluginText, 'x') + "... (7 more bytes)");
  const std::string split = std::string(kMaxPluginText - 1, 'x') + "ü";
  CHECK(plugin_text(split) == std::string(kMaxPluginText - 1, 'x') + "... (2 more bytes)");
}

TEST_CASE("a name is short UTF-8 without control characters", "[error]") {
  for (const std::string& name : {std::string("layers.0.weight"),
                                  std::string("größe"),
                                  std::string("a b/c"),
                                  std::string(kMaxPluginName, 'x')}) {
    CHECK(name_problem(name).empty());
  }
  CHECK(name_problem("") == "is empty");
  CHECK(name_problem("a\xff") == "has the byte \\xff, which is not UTF-8");
  CHECK(name_problem("a\nb") == "has the control character \\x0a");
  CHECK(name_problem("a\xc2\x9b") == "has the control character \\u009b");
  CHECK(name_problem(std::string(300, 'x')) == "has 300 bytes, at most 256 are allowed");
}
