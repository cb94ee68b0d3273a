// SPDX-License-Identifier: Apache-2.0
#include "host/terminal/usage_error.hpp"

#include "host/error/error.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

template <class Call>
std::string failure(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.id() + ": " + error.message();
  }
  return "no error";
}

}  // namespace

TEST_CASE("an error of a value says what was expected and found", "[cli]") {
  CHECK(failure([] { fail_value("bind", "x", "a word"); }) ==
        "usage.bad_option: --bind: expected a word, found \"x\"");
  CHECK(failure([] {
          fail_word("bind", "core", {"none", "cores"});
        }) ==
        "usage.bad_option: --bind: expected none or cores, found \"core\"; did you mean "
        "\"cores\"?");
  CHECK(failure([] {
          fail_word("bind", "zzz", {"none", "cores", "numa"});
        }) == "usage.bad_option: --bind: expected none, cores or numa, found \"zzz\"");
}

TEST_CASE("a whole number has limits, and nothing after it", "[cli]") {
  CHECK(read_whole("n", "-3", -3, 4, "a number") == -3);
  CHECK(read_whole("n", "4", -3, 4, "a number") == 4);
  for (const std::string text : {"5", "-4", "1x", " 1", "", "1e0", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK(failure([&] { (void)read_whole("n", text, -3, 4, "a number"); }) ==
          "usage.bad_option: --n: expected a number, found \"" + text + "\"");
  }
}

}  // namespace tenon
