// SPDX-License-Identifier: Apache-2.0
#include "host/json/schema_keyword.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {

using nlohmann::json;

TEST_CASE("a keyword is found where it is, and has the type it must have", "[recipe]") {
  const json schema = json::parse(R"({"minimum": 1, "type": "integer", "items": {}, "enum": [],
    "uniqueItems": true})");
  CHECK(find_keyword(schema, "minimum") == &schema["minimum"]);
  CHECK(find_keyword(schema, "minimum", KeywordType::kNumber) != nullptr);
  CHECK(find_keyword(schema, "minimum", KeywordType::kString) == nullptr);
  CHECK(find_keyword(schema, "type", KeywordType::kString) != nullptr);
  CHECK(find_keyword(schema, "items", KeywordType::kObject) != nullptr);
  CHECK(find_keyword(schema, "enum", KeywordType::kArray) != nullptr);
  CHECK(find_keyword(schema, "uniqueItems", KeywordType::kBoolean) != nullptr);
  CHECK(find_keyword(schema, "maximum") == nullptr);
  CHECK(find_keyword(true, "type") == nullptr);
}

}  // namespace tenon
