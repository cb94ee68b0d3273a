// SPDX-License-Identifier: Apache-2.0
#include "host/train/generate/stop_strings.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string printed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopStrings filter(stops);
  std::string text;
  for (const std::string& piece : pieces) {
    text += filter.push(piece);
  }
  return text + filter.finish() + (filter.is_found() ? "|" : "");
}

}  // namespace

TEST_CASE("a text ends before the first stop string, whatever its pieces are", "[train]") {
  CHECK(printed({"\nUser:"}, {"yes", "\n", "User", ": no"}) == "yes|");
  CHECK(printed({"\nUser:", "es"}, {"yes\nUser:"}) == "y|");
  CHECK(printed({"aab"}, {"a", "a", "a", "b", "c"}) == "a|");
  CHECK(printed({"END"}, {"the EN", "D"}) == "the |");
}

TEST_CASE("text that only starts as a stop string is printed", "[train]") {
  CHECK(printed({"\nUser:"}, {"a\n", "Us", "e me\nUser"}) == "a\nUse me\nUser");
  CHECK(printed({}, {"a", "b"}) == "ab");
  StopStrings filter({"abc"});
  CHECK(filter.push("xab") == "x");
  CHECK(filter.push("d").starts_with("abd"));
}

}  // namespace tenon
