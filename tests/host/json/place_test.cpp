// SPDX-License-Identifier: Apache-2.0
#include "host/json/place.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

Place line(int number) {
  return {.origin = PlaceOrigin::kFile, .file = "a.json", .number = number};
}

Place set(int number) {
  return {.origin = PlaceOrigin::kSet, .number = number};
}

}  // namespace

TEST_CASE("a place reads as one would look it up", "[recipe]") {
  CHECK(line(12).text() == "a.json:12");
  CHECK(set(2).text() == "--set #2");
  CHECK(Place{}.text() == "default");
  Place expanded = set(2);
  expanded.env = "HOME";
  CHECK(expanded.text() == "--set #2 via ${ENV:HOME}");
}

TEST_CASE("a value without a place has that of its nearest ancestor", "[recipe]") {
  PlaceMap places;
  CHECK(places.at("/a/b").text() == "default");
  places.set("", line(1));
  places.set("/a", line(2));
  CHECK(places.at("/a/b/c").text() == "a.json:2");
  CHECK(places.at("/ab").text() == "a.json:1");
  CHECK(places.has("/a"));
  CHECK_FALSE(places.has("/a/b"));
}

TEST_CASE("a new value forgets the places inside the old one", "[recipe]") {
  PlaceMap places;
  places.set("/a", line(2));
  places.set("/a/b", line(3));
  places.set("/ab", line(4));
  places.set("/a", set(1));
  CHECK(places.at("/a/b").text() == "--set #1");
  CHECK(places.at("/ab").text() == "a.json:4");
  places.set("/a/b", line(5));
  places.set_shallow("/a", set(2));
  CHECK(places.at("/a/b").text() == "a.json:5");
}

TEST_CASE("only a value filled in itself counts as a default", "[recipe]") {
  PlaceMap places;
  places.set("/a", Place{});
  places.set("/b", line(1));
  CHECK(places.is_default("/a"));
  CHECK_FALSE(places.is_default("/a/b"));
  CHECK_FALSE(places.is_default("/b"));
  CHECK_FALSE(places.is_default("/c"));
}

TEST_CASE("what is missing in a default is the matter of what was written around it", "[recipe]") {
  PlaceMap places;
  places.set("/a", line(2));
  places.set("/a/options", Place{});
  places.set("/a/options/x", Place{});
  CHECK(places.written_at("/a/options/x").text() == "a.json:2");
  CHECK(places.written_at("/b").text() == "default");
}

TEST_CASE("the file is read before the command line, and defaults come last", "[recipe]") {
  CHECK(line(3).sort_key() < line(12).sort_key());
  CHECK(line(12).sort_key() < set(1).sort_key());
  CHECK(set(9).sort_key() < Place{}.sort_key());
}

}  // namespace tenon
