// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/key_type.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {

using nlohmann::json;

TEST_CASE("sizes are numbers of bytes, or numbers with a unit", "[recipe]") {
  CHECK(bytes_of(12) == 12);
  CHECK(bytes_of("12") == 12);
  CHECK(bytes_of("12 B") == 12);
  CHECK(bytes_of("8GiB") == int64_t{8} << 30);
  CHECK(bytes_of("1.5 GB") == 1'500'000'000);
  CHECK(bytes_of("1TiB") == int64_t{1} << 40);
  CHECK(bytes_of("99999999999999999999TB") == 9'000'000'000'000'000'000);
}

TEST_CASE("defaults of numbers that are whole read like integers", "[recipe]") {
  const RecipeKey key("x");
  CHECK(KeyType<double>::json(key, 60).dump() == "60");
  CHECK(KeyType<double>::json(key, 0.01).dump() == "0.01");
}

TEST_CASE("an optional member may be null, unless the key may be absent", "[recipe]") {
  RecipeKey key("x");
  CHECK(KeyType<std::optional<int>>::schema(key) == KeySchema{{"type", {"integer", "null"}}});
  key.absent();
  CHECK(KeyType<std::optional<int>>::schema(key) == KeySchema{{"type", "integer"}});
}

TEST_CASE("a list takes one entry without brackets if the key says so", "[recipe]") {
  RecipeKey key("x");
  key.or_one();
  const PlaceMap places;
  BoundKeys keys(places, {});
  const std::string pointer = "/x";
  std::vector<int> out;
  KeyType<std::vector<int>>::read(key, {json(4), pointer, keys}, out);
  CHECK(out == std::vector<int>{4});
  KeyType<std::vector<int>>::read(key, {json{1, 2}, pointer, keys}, out);
  CHECK(out == std::vector<int>{1, 2});
}

TEST_CASE("windows are named by label or by id", "[recipe]") {
  using Name = std::variant<std::string, std::uint64_t>;
  const RecipeKey key("x");
  const PlaceMap places;
  BoundKeys keys(places, {});
  const std::string pointer = "/x";
  Name name;
  KeyType<Name>::read(key, {json(7), pointer, keys}, name);
  CHECK(std::get<std::uint64_t>(name) == 7);
  KeyType<Name>::read(key, {json("2024-*"), pointer, keys}, name);
  CHECK(std::get<std::string>(name) == "2024-*");
}

}  // namespace tenon
