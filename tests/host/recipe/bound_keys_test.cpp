// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/bound_keys.hpp"

#include <nlohmann/json.hpp>

#include <string>

#include "tests/support/catch.hpp"

namespace tenon {

using nlohmann::json;

TEST_CASE("a key is written, null, or a default", "[recipe]") {
  const json root = json::parse(R"({"a": {"b": 1, "c": null, "d": 2}})");
  PlaceMap places;
  places.set("", {.origin = PlaceOrigin::kFile, .file = "r.json", .number = 1});
  places.set("/a/b", {.origin = PlaceOrigin::kFile, .file = "r.json", .number = 3});
  places.set("/a/d", {});
  BoundKeys keys(places, {});
  keys.add("/a", root["a"]);
  for (const char* const key : {"b", "c", "d"}) {
    keys.add("/a/" + std::string(key), root["a"][key]);
  }
  CHECK(keys.is_set("/a/b"));
  CHECK(keys.is_given("/a/c"));
  CHECK_FALSE(keys.is_set("/a/c"));
  CHECK(keys.has("/a/d"));
  CHECK_FALSE(keys.is_given("/a/d"));
  CHECK_FALSE(keys.has("/a/e"));
  CHECK_FALSE(keys.is_given("/a/e"));
  CHECK(keys.brief("/a/b") == "1");
  CHECK(keys.brief("/a/e").empty());
  CHECK(keys.place("/a/b").text() == "r.json:3");
  CHECK(keys.place("/a/d").text() == "default");
  CHECK(keys.place("/a/d/e").text() == "r.json:1");  // of what should contain it
}

TEST_CASE("a value with a problem is not bound, nor is what it contains", "[recipe]") {
  const PlaceMap places;
  const BoundKeys keys(
      places, {{.id = "recipe.wrong_type", .place = {}, .pointer = "/a/b", .what = "wrong type"}});
  CHECK(keys.has_problem("/a/b"));
  CHECK_FALSE(keys.has_problem("/a/b/c"));
  CHECK(keys.is_unbound("/a/b/c"));
  CHECK_FALSE(keys.is_unbound("/a"));
  CHECK_FALSE(keys.is_unbound("/a/bc"));
}

}  // namespace tenon
