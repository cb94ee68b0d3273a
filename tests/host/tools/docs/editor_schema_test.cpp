// SPDX-License-Identifier: Apache-2.0
#include "host/tools/docs/editor_schema.hpp"

#include "host/error/error.hpp"
#include "host/json/place.hpp"
#include "host/json/problem.hpp"
#include "host/json/schema_arbiter.hpp"
#include "host/recipe/recipe_schema.hpp"

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

OfferedComponent component(const std::string& kind,
                           const std::string& type,
                           const std::string& schema = "",
                           const std::string& plugin_id = "org.example.one") {
  return {.kind = kind,
          .name = type,
          .plugin_id = plugin_id,
          .type = type,
          .summary = "what " + type + " is",
          .options_schema = schema};
}

// The components of the recipe below, one of each kind, and those given.
std::vector<OfferedComponent> with(std::vector<OfferedComponent> more) {
  std::vector<OfferedComponent> offered = {component("model", "net"),
                                           component("dataset", "rows"),
                                           component("loss", "square"),
                                           component("optimizer", "plain")};
  offered.insert(offered.end(), more.begin(), more.end());
  return offered;
}

json recipe(const char* patch = "{}") {
  json text = {{"model", {{"type", "net"}}},
               {"data", {{"batch_size", 2}, {"train", {{"type", "rows"}}}}},
               {"loss", {{"type", "square"}}},
               {"optimizer", {{"type", "plain"}}},
               {"train", {{"steps", 1}}}};
  text.merge_patch(json::parse(patch));
  return text;
}

bool allows(const json& schema, const json& value) {
  ProblemList problems;
  SchemaArbiter(schema, "the printed schema").check(value, "", PlaceMap(), problems);
  return problems.empty();
}

// Each object of the schema that has both "type" and "options" among its keys.
void check_slots(const json& schema, const std::string& path) {
  if (schema.is_object()) {
    const auto properties = schema.find("properties");
    if (properties != schema.end() && properties->contains("options") &&
        properties->contains("type")) {
      INFO(path);
      CHECK(schema.contains("x-tenon-slot"));
    }
    for (const auto& [key, value] : schema.items()) {
      check_slots(value, path + "/" + key);
    }
  } else if (schema.is_array()) {
    for (const json& entry : schema) {
      check_slots(entry, path);
    }
  }
}

// Nothing of the schema's own words is left in what editors read.
void check_no_marks(const json& value) {
  if (value.is_structured()) {
    for (const auto& [key, child] : value.items()) {
      INFO(key);
      CHECK(key.rfind("x-tenon-", 0) != 0);
      check_no_marks(child);
    }
  }
}

}  // namespace

TEST_CASE("each place of a recipe that takes a component says of which kind", "[cli]") {
  check_slots(recipe_schema(), "");
}

TEST_CASE("options are those of the type that is written", "[cli]") {
  const json schema = editor_schema(with(
      {component("model",
                 "deep",
                 R"({"type": "object", "properties": {"depth": {"type": "integer", "minimum": 1,
                     "default": 2, "description": "layers", "x-tenon-path": true}},
                     "additionalProperties": false})")}));
  CHECK(allows(schema, recipe()));
  CHECK(allows(schema, recipe(R"({"model": {"type": "deep"}})")));
  CHECK(allows(schema, recipe(R"({"model": {"type": "deep", "options": {"depth": 3}}})")));
  CHECK(allows(schema, recipe(R"({"model": {"type": "org.example.one/deep"}})")));
  CHECK_FALSE(allows(schema, recipe(R"({"model": {"type": "deep", "options": {"depth": 0}}})")));
  CHECK_FALSE(allows(schema, recipe(R"({"model": {"type": "net", "options": {"depth": 3}}})")));
  CHECK_FALSE(allows(schema, recipe(R"({"model": {"type": "organexample.one/deep"}})")));
  CHECK_FALSE(allows(schema, recipe(R"({"model": {"type": "rows"}})")));
  check_no_marks(schema);
  const json& depth = schema["definitions"]["model.org.example.one.deep"]["properties"]["depth"];
  CHECK(depth == json::parse(R"({"type": "integer", "minimum": 1, "default": 2,
                                 "description": "layers"})"));
  CHECK(schema["definitions"]["model"]["properties"]["type"]["anyOf"][1] ==
        json::parse(R"({"const": "deep", "description": "what deep is"})"));
}

TEST_CASE("options may be left out unless one of them is required", "[cli]") {
  const auto offered = [](const std::string& property) {
    return with({component(
        "hook",
        "stop",
        R"({"type": "object", "required": ["at"], "properties": {"at": )" + property + "}}")});
  };
  const json bare = recipe(R"({"hooks": [{"type": "stop"}]})");
  CHECK_FALSE(allows(editor_schema(offered(R"({"type": "integer"})")), bare));
  CHECK(allows(editor_schema(offered(R"({"type": "integer", "default": 1})")), bare));
}

TEST_CASE("a type that two plugins offer needs its plugin's id", "[cli]") {
  OfferedComponent one = component("loss", "huber");
  OfferedComponent two = component("loss", "huber", "", "org.example.two");
  one.name = "org.example.one/huber";
  two.name = "org.example.two/huber";
  const json schema = editor_schema(with({one, two}));
  CHECK(allows(schema, recipe(R"({"loss": {"type": "org.example.two/huber"}})")));
  CHECK_FALSE(allows(schema, recipe(R"({"loss": {"type": "huber"}})")));
}

TEST_CASE("a component inside options is one of its kind, or a reference", "[cli]") {
  const std::string nested = R"({"type": "object", "properties": {
    "words": {"x-tenon-component": "tokenizer", "type": "object"},
    "more": {"x-tenon-component": "tokenizer", "type": ["object", "null"], "default": null}},
    "additionalProperties": false})";
  const json schema = editor_schema(with({component("dataset", "book", nested),
                                          component("tokenizer", "pair", nested),
                                          component("tokenizer", "letters")}));
  const auto book = [](const char* options) {
    json whole = recipe(R"({"data": {"train": {"type": "book"}}})");
    whole["data"]["train"]["options"] = json::parse(options);
    return whole;
  };
  CHECK(allows(schema, book(R"({"words": {"type": "letters"}, "more": null})")));
  CHECK(allows(schema, book(R"({"words": {"ref": "/data/train/options/more"}})")));
  CHECK(allows(schema,
               book(R"({"words": {"type": "pair", "options": {"words": {"type": "letters"}}}})")));
  CHECK_FALSE(allows(schema, book(R"({"words": null})")));
  CHECK_FALSE(allows(schema, book(R"({"words": {}})")));
  CHECK_FALSE(allows(schema, book(R"({"words": {"type": "letters", "options": {"a": 1}}})")));
  CHECK_FALSE(allows(
      schema, book(R"({"words": {"type": "pair", "options": {"words": {"type": "rows"}}}})")));
}

TEST_CASE("a schema's references to itself lead to the same place", "[cli]") {
  const json schema = editor_schema(with({component("hook", "tree", R"({"type": "object",
    "definitions": {"node": {"type": "object", "properties": {
      "children": {"type": "array", "items": {"$ref": "#/definitions/node"}},
      "$ref": {"type": "string"}}, "additionalProperties": false}},
    "properties": {"root": {"$ref": "#/definitions/node"}, "self": {"$ref": "#"}}})")}));
  const auto tree = [](const char* options) {
    json whole = recipe(R"({"hooks": [{"type": "tree"}]})");
    whole["hooks"][0]["options"] = json::parse(options);
    return whole;
  };
  CHECK(allows(schema, tree(R"({"root": {"children": [{"children": []}], "$ref": "x"}})")));
  CHECK_FALSE(allows(schema, tree(R"({"root": {"children": [{"children": [{"a": 1}]}]}})")));
  CHECK_FALSE(allows(schema, tree(R"({"self": {"root": {"a": 1}}})")));
}

TEST_CASE("a group inherits what its optimizer has, and one of another type does not", "[cli]") {
  const json schema = editor_schema(with({component("optimizer", "fast", R"({"type": "object",
    "required": ["lr"], "properties": {"lr": {"type": "number"}, "beta": {"type": "number"}},
    "additionalProperties": false})")}));
  const auto groups = [](const std::string& type, const char* list) {
    json whole = recipe();
    whole["optimizer"] = {{"type", type}, {"groups", json::parse(list)}};
    if (type == "fast") {
      whole["optimizer"]["options"] = {{"lr", 1}};
    }
    return whole;
  };
  CHECK(allows(schema, groups("fast", R"([{"match": "*", "beta": 1}])")));
  CHECK(allows(schema, groups("fast", R"([{"match": "*", "type": "fast", "beta": 1}])")));
  CHECK(allows(schema, groups("fast", R"([{"match": "*", "type": "plain"}])")));
  CHECK(allows(schema, groups("plain", R"([{"match": "*", "type": "fast", "lr": 1}])")));
  CHECK_FALSE(allows(schema, groups("plain", R"([{"match": "*", "type": "fast", "beta": 1}])")));
  CHECK_FALSE(allows(schema, groups("plain", R"([{"match": "*", "lr": 1}])")));
  CHECK_FALSE(allows(schema, groups("fast", R"([{"match": "*", "type": "plain", "lr": 1}])")));
  CHECK_FALSE(allows(schema, groups("fast", R"([{"beta": 1}])")));
}

TEST_CASE("a key that this release refuses is marked, and may ask for nothing alone", "[cli]") {
  const json schema = editor_schema(with({}));
  const json& expert = schema["properties"]["parallel"]["properties"]["expert"];
  CHECK(expert["description"] == "not in this release: expert parallelism");
  CHECK(expert["doNotSuggest"] == true);
  CHECK(allows(schema, recipe(R"({"parallel": {"expert": 1}})")));
  CHECK_FALSE(allows(schema, recipe(R"({"parallel": {"expert": 2}})")));
}

TEST_CASE("without plugins a recipe has nothing that it could name", "[cli]") {
  const json schema = editor_schema({});
  CHECK_FALSE(allows(schema, recipe()));
  CHECK(schema["definitions"]["model"]["properties"]["type"]["errorMessage"] ==
        "no plugin offers a model");
}

TEST_CASE("a component whose options are described by no JSON Schema is named", "[cli]") {
  for (const char* const bad : {"{", R"({"type": "object", "properties": {"a": {"type": 3}}})"}) {
    try {
      (void)editor_schema(with({component("hook", "odd", bad)}));
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.id() == "plugin.bad_schema");
      CHECK_THAT(error.message(), contains_text("the hook \"odd\" of org.example.one"));
    }
  }
}

}  // namespace tenon
