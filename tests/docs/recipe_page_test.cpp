// SPDX-License-Identifier: Apache-2.0
//
// docs/reference/recipe.md against the schema that recipes are held to: every key is there, with
// its default, and none that does not exist.
#include "host/recipe/recipe_schema.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/docs/markdown.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;

struct KeyRow {
  std::string type;
  std::string fallback;  // the column "default", without quotes of code
};

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" `");
  const std::size_t last = text.find_last_not_of(" `");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

// The rows of the page's tables of four columns, by key.
std::map<std::string, KeyRow> rows_of_page() {
  std::map<std::string, KeyRow> rows;
  std::istringstream page(read_text(source_dir() / "docs/reference/recipe.md"));
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("| `", 0) != 0) {
      continue;
    }
    std::vector<std::string> cells;
    std::istringstream in(line.substr(1));
    for (std::string cell; std::getline(in, cell, '|');) {
      cells.push_back(trimmed(cell));
    }
    if (cells.size() == 4) {
      rows[cells[0]] = {cells[1], cells[2]};
    }
  }
  return rows;
}

void collect(const json& schema, const std::string& above, std::map<std::string, json>& out) {
  const auto properties = schema.find("properties");
  if (properties == schema.end()) {
    return;
  }
  for (const auto& [key, value] : properties->items()) {
    const std::string path = above.empty() ? key : above + "." + key;
    out[path] = value;
    collect(value, path, out);
    // What may be one or a list of them has its keys once.
    if (value.contains("items") && !value.contains("properties")) {
      collect(value["items"], path + "[]", out);
    }
    // What is named by the user; components are described by themselves.
    const auto named = value.find("additionalProperties");
    if (named != value.end() && named->is_object() && !named->contains("x-tenon-slot")) {
      collect(*named, path + ".NAME", out);
    }
  }
}

bool is_unavailable(const json& schema) {
  return schema.contains("x-tenon-unavailable");
}

}  // namespace

TEST_CASE("the recipe's reference has each key of the schema, with its default", "[docs]") {
  std::map<std::string, json> keys;
  collect(recipe_schema(), "", keys);
  const std::map<std::string, KeyRow> rows = rows_of_page();
  for (const auto& [key, schema] : keys) {
    INFO(key);
    const auto row = rows.find(key);
    REQUIRE(row != rows.end());
    CHECK((row->second.type == "not yet") == is_unavailable(schema));
    const auto fallback = schema.find("default");
    if (fallback != schema.end()) {
      // As values: keys of an object may come in another order.
      CHECK(std::decay_t<decltype(*fallback)>::parse(row->second.fallback) == *fallback);
    }
  }
  for (const auto& [key, row] : rows) {
    INFO(key);
    CHECK(keys.count(key) == 1);
  }
}

TEST_CASE("the recipe's reference calls what is required so", "[docs]") {
  const std::map<std::string, KeyRow> rows = rows_of_page();
  for (const auto& [object, required] : std::map<std::string, json>{
           {"", recipe_schema()["required"]},
           {"data.", recipe_schema()["properties"]["data"]["required"]},
           {"optimizer.", recipe_schema()["properties"]["optimizer"]["required"]}}) {
    for (const json& key : required) {
      const std::string path = object + key.get<std::string>();
      INFO(path);
      CHECK(rows.at(path).fallback == "required");
    }
  }
}

}  // namespace tenon
