// SPDX-License-Identifier: Apache-2.0
#include "host/tools/docs/describe_component.hpp"

#include "host/error/error.hpp"

#include <nlohmann/json.hpp>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// A component that a plugin could have registered, with the schema given.
class Described {
 public:
  explicit Described(const std::string& schema, const std::string& summary = "what it is")
      : plugin_({"org.example.x", "1.2.0", "p/x.so"}, {}) {
    descriptor_.struct_size = sizeof(descriptor_);
    descriptor_.interface_id = "tenon.loss/1";
    component_ = {.plugin = &plugin_,
                  .descriptor = &descriptor_,
                  .kind = "loss",
                  .type = "x",
                  .interface_id = "tenon.loss/1",
                  .table = nullptr,
                  .summary = summary,
                  .options_schema = schema};
  }

  std::string text() const { return component_text(component_); }
  std::string json() const { return component_json(component_); }
  std::string markdown() const { return component_markdown(component_); }

  // The rows of the options, without what stands above them.
  std::string table() const {
    const std::string whole = text();
    return whole.substr(whole.find("\n\n") + 2);
  }

 private:
  LoadedPlugin plugin_;
  tenon_component descriptor_{};
  LoadedComponent component_{};
};

std::string error_of(PluginRegistry& registry, const std::string& kind, const std::string& name) {
  try {
    (void)component_to_describe(registry, kind, name);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a component is described with its plugin and a table of options", "[cli]") {
  const Described described(R"({"type": "object", "properties": {
    "zeta": {"type": "number", "minimum": 0, "default": 0.5, "description": "comes first"},
    "alpha": {"type": "integer", "minimum": 1, "maximum": 8, "description": "has no default"}},
    "required": ["alpha"], "additionalProperties": false})");
  CHECK(described.text() ==
        "loss:x\n"
        "what it is\n"
        "plugin org.example.x 1.2.0 (p/x.so)\n"
        "\n"
        "OPTION  TYPE     DEFAULT   BOUNDS  WHAT IT IS\n"
        "zeta    number   0.5       >= 0    comes first\n"
        "alpha   integer  required  1 to 8  has no default\n");
}

TEST_CASE("a component without options says so", "[cli]") {
  for (const std::string schema : {"", "{}", R"({"type": "object", "properties": {}})"}) {
    CHECK(Described(schema, "").text() ==
          "loss:x\nplugin org.example.x 1.2.0 (p/x.so)\n\nIt takes no options.\n");
  }
}

TEST_CASE("types and bounds of JSON Schema are put into words", "[cli]") {
  const auto words = [](const std::string& schema) {
    const std::string table =
        Described(R"({"type": "object", "properties": {"o": )" + schema + "}}").table();
    const std::string row = table.substr(table.find('\n') + 1);
    std::string text;  // with single blanks
    for (const char c : row.substr(0, row.size() - 1)) {
      if (c != ' ' || (!text.empty() && text.back() != ' ')) {
        text += c;
      }
    }
    return text;
  };
  CHECK(words(R"({"type": "boolean", "default": true})") == "o boolean true");
  CHECK(words(R"({"type": ["null", "integer"], "exclusiveMinimum": 0, "default": null})") ==
        "o integer or null null > 0");
  CHECK(words(R"({"type": "number", "minimum": 0, "exclusiveMaximum": 1})") ==
        "o number >= 0, < 1");
  CHECK(words(R"({"type": "string", "enum": ["a", "b c"], "default": "a"})") ==
        "o string \"a\" a | b c");
  CHECK(words(R"({"enum": ["a", 1]})") == "o choice a | 1");
  CHECK(words(R"({"type": "string", "x-tenon-path": true, "minLength": 1})") == "o path not empty");
  CHECK(words(R"({"type": "string", "pattern": "^a+$", "maxLength": 9})") ==
        "o string at most 9 characters, matches ^a+$");
  CHECK(
      words(R"({"type": ["object", "null"], "x-tenon-component": "tokenizer", "default": null})") ==
      "o tokenizer component or null null");
  CHECK(words(R"({"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 2,
                  "maxItems": 2, "default": [0, 1]})") ==
        "o list of number [0,1] 2 entries, each >= 0");
  CHECK(words(R"({"type": "array", "items": {"type": "array", "items": {"type": "integer"}},
                  "minItems": 1})") == "o list of list of integer at least 1 entry");
  CHECK(words(R"({"type": "array"})") == "o list");
  CHECK(words(R"({"anyOf": [{"type": "null"}, {"type": "integer", "multipleOf": 8}]})") ==
        "o integer or null multiple of 8");
  CHECK(words(R"({"const": 3})") == "o choice 3");
  CHECK(words("true") == "o any");
  CHECK(
      words(
          R"({"type": "object", "default": {"a_long_key": "a_long_value", "another": [1, 2, 3]}})") ==
      "o object {...}");
}

TEST_CASE("options inside options are rows of their own", "[cli]") {
  const Described described(R"({"type": "object", "properties": {
    "range": {"type": "object", "description": "where", "default": {"first": 0}, "properties": {
      "first": {"type": "integer", "default": 0}}},
    "layers": {"type": "array", "default": [], "items": {"type": "object", "required": ["width"],
      "properties": {"width": {"type": "integer", "description": "how wide"}}}}}})");
  CHECK(described.table() ==
        "OPTION          TYPE            DEFAULT   WHAT IT IS\n"
        "range           object                    where\n"
        "range.first     integer         0\n"
        "layers          list of object  []\n"
        "layers[].width  integer         required  how wide\n");
}

TEST_CASE("options inside an object that may be null are rows of their own", "[cli]") {
  const Described described(R"({"type": "object", "properties": {
    "scaling": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {
      "factor": {"type": "number", "default": 8.0}}}], "default": null}}})");
  CHECK(described.table() ==
        "OPTION          TYPE            DEFAULT\n"
        "scaling         object or null  null\n"
        "scaling.factor  number          8.0\n");
}

TEST_CASE("a schema that refers to itself is described to some depth", "[cli]") {
  const Described described(R"({"type": "object",
    "properties": {"tree": {"$ref": "#/definitions/node"}},
    "definitions": {"node": {"type": "object", "description": "a node", "properties": {
      "child": {"$ref": "#/definitions/node"}}}}})");
  const std::string table = described.table();
  CHECK_THAT(table, contains_text("tree.child.child "));
  CHECK(table.size() < 4000);
  CHECK_THAT(Described(R"({"properties": {"o": {"$ref": "#/nowhere"}}})").table(),
             contains_text("o       any"));
}

TEST_CASE("the JSON description has the schema as the plugin gave it", "[cli]") {
  const std::string schema =
      R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "boolean"}}})";
  const auto description = nlohmann::ordered_json::parse(Described(schema).json());
  CHECK(description["kind"] == "loss");
  CHECK(description["type"] == "x");
  CHECK(description["summary"] == "what it is");
  CHECK(description["interface"] == "tenon.loss/1");
  CHECK(description["plugin"]["id"] == "org.example.x");
  CHECK(description["plugin"]["version"] == "1.2.0");
  CHECK(description["plugin"]["file"] == "p/x.so");
  CHECK(description["options_schema"].dump() == nlohmann::ordered_json::parse(schema).dump());
}

TEST_CASE("the component to describe is loaded from its plugin", "[cli]") {
  ZooFolder zoo;
  zoo.add("good_c");
  PluginRegistry registry(zoo.setup(Vetting::kOnDemand));
  const LoadedComponent& component = component_to_describe(registry, "loss", "half_square");
  CHECK_THAT(component_text(component), contains_text("half the squared difference, in plain C\n"));
  CHECK_THAT(component_text(component), contains_text("\nscale "));
  CHECK(error_of(registry, "loss", "half_sqare") ==
        "[recipe.unknown_type] no plugin in " + zoo.path() +
            " (--plugin-dir) offers loss \"half_sqare\"; did you mean \"half_square\"?");
  CHECK_THAT(error_of(registry, "loss", "entirely_else"), contains_text("; there is half_square"));
  CHECK_THAT(error_of(registry, "model", "x"),
             contains_text("; --list-plugins shows what there is"));
}

TEST_CASE("a type of two plugins is described once one of them is named", "[cli]") {
  ZooFolder zoo;
  zoo.add("same_type_1");
  zoo.add("same_type_2");
  PluginRegistry registry(zoo.setup(Vetting::kOnDemand));
  CHECK_THAT(error_of(registry, "loss", "half_square"), contains_text("[recipe.ambiguous_type]"));
  CHECK(component_to_describe(registry, "loss", "org.tenon.zoo.same_type_2/half_square")
            .plugin->host.context()
            .id == "org.tenon.zoo.same_type_2");
}

TEST_CASE("a plugin that crashes cannot be described, and that is all", "[cli]") {
  ZooFolder zoo;
  zoo.add("crashes_in_entry");
  PluginRegistry registry(zoo.setup(Vetting::kOnDemand));
  CHECK_THAT(error_of(registry, "loss", "zoo"), contains_text("[plugin.crashed]"));
}

TEST_CASE("a component's options are a table for a page", "[cli]") {
  CHECK(Described(R"({"type": "object", "properties": {"a": {"type": "boolean", "default": true,
                      "description": "whether"}}})")
            .markdown() ==
        "| option | type | default | meaning |\n"
        "|---|---|---|---|\n"
        "| `a` | boolean | `true` | whether |\n");
  CHECK(Described("").markdown() == "It takes no options.\n");
}

TEST_CASE("keys of the recipe are a table for a page", "[cli]") {
  const std::string table = recipe_markdown({"sinks", "seed"});
  CHECK_THAT(table, contains_text("| `seed` | integer ≥ 0 | `1` |"));
  CHECK_THAT(table, contains_text("| `sinks[].type` | string | required |"));
  CHECK_THAT(table, !contains_text("`hooks`"));
  CHECK(recipe_markdown({}).size() > table.size());
  try {
    (void)recipe_markdown({"trian"});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "usage.bad_option");
    CHECK_THAT(error.message(), contains_text("did you mean \"train\"?"));
  }
}

}  // namespace tenon
