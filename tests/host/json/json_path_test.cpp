// SPDX-License-Identifier: Apache-2.0
#include "host/json/json_path.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {

using nlohmann::json;

TEST_CASE("tokens are escaped in a pointer and unescaped out of it", "[recipe]") {
  const std::string pointer = join_pointer(join_pointer("", "a/b"), "c~d");
  CHECK(pointer == "/a~1b/c~0d");
  CHECK(split_pointer(pointer) == std::vector<std::string>{"a/b", "c~d"});
  CHECK(split_pointer("") == std::vector<std::string>{});
  CHECK(split_pointer("/") == std::vector<std::string>{""});
  CHECK(join_pointer("/hooks", 3) == "/hooks/3");
}

TEST_CASE("what is no pointer splits into nothing", "[recipe]") {
  CHECK_FALSE(split_pointer("a/b"));
  CHECK_FALSE(split_pointer("/a~2"));
  CHECK_FALSE(split_pointer("/a~"));
}

TEST_CASE("a pointer has a parent up to the root", "[recipe]") {
  CHECK(parent_pointer("/a/b") == "/a");
  CHECK(parent_pointer("/a").empty());
  CHECK(parent_pointer("").empty());
}

TEST_CASE("below is a matter of tokens, not of letters", "[recipe]") {
  CHECK(is_at_or_below("/loss", "/loss"));
  CHECK(is_at_or_below("/loss/type", "/loss"));
  CHECK_FALSE(is_at_or_below("/losses", "/loss"));
  CHECK(is_at_or_below("/losses", ""));
}

TEST_CASE("an index is a plain number", "[recipe]") {
  CHECK(parse_index("0") == 0U);
  CHECK(parse_index("12") == 12U);
  for (const char* const text : {"", "01", "-1", "+1", "x", "1x", "99999999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(parse_index(text));
  }
}

TEST_CASE("a value is found by its pointer, or nothing is", "[recipe]") {
  json root = {{"a", {1, {{"b", "c"}}}}};
  REQUIRE(find_at(root, "/a/1/b") != nullptr);
  CHECK(*find_at(root, "/a/1/b") == "c");
  CHECK(find_at(root, "") == &root);
  for (const char* const pointer : {"/x", "/a/2", "/a/01", "/a/x", "/a/0/b", "a", "/a/1/b/c"}) {
    INFO(pointer);
    CHECK(find_at(root, pointer) == nullptr);
  }
}

}  // namespace tenon
