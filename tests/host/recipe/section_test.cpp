// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/section.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

enum class Color { kNone, kRed, kBlue };

struct Leaf {
  std::string name;
  double weight = 2;
  ComponentUse use;

  template <class Section>
  static void bind(Section& s) {
    s.doc("a leaf");
    s.component("hook", &Leaf::use);
    s.key("weight", &Leaf::weight).min(0).doc("weight of the leaf");
  }
};

struct Tree {
  int height = 3;
  std::optional<double> width;
  std::optional<double> limit;
  std::string note;
  Color color = Color::kNone;
  bool has_a = true;
  bool has_b = false;
  Schedule every = {};
  std::vector<std::string> tags;
  std::optional<std::int64_t> bytes;
  std::vector<Leaf> leaves;
  std::vector<Leaf> named;
  std::optional<Leaf> best;
  int roots = 1;
  std::vector<ComponentUse> others;

  template <class Section>
  static void bind(Section& s) {
    s.key("height", &Tree::height)
        .min(1)
        .max(9)
        .required()
        .formerly("size")
        .doc("height")
        .resume(resume::kShapes);
    s.key("width", &Tree::width).above(0).doc("width; null: any").resume(resume::kFree);
    s.key("limit", &Tree::limit).absent().doc("limit");
    s.key("note", &Tree::note).or_null().non_empty().doc("note");
    s.choice("color",
             &Tree::color,
             {{nullptr, Color::kNone}, {"red", Color::kRed}, {"blue", Color::kBlue}})
        .doc("color");
    s.flags("parts", {{"a", &Tree::has_a}, {"b", &Tree::has_b}}).min_items(1).doc("parts");
    s.schedule(&Tree::every, {.steps = "steps", .windows = "windows", .epochs = "epochs"});
    s.key("tags", &Tree::tags).or_one().doc("tags");
    s.size("bytes", &Tree::bytes).absent().doc("memory");
    s.key("leaves", &Tree::leaves).doc("leaves").resume_below("/*/weight", resume::kBits);
    s.named("named", &Tree::named).doc("leaves by name");
    s.key("best", &Tree::best).doc("the best one; null: none");
    s.object("ground", [](Section& g) { g.key("roots", &Tree::roots).doc("roots"); }).doc("ground");
    s.key("others", &Tree::others).component("metric").preset("[]").doc("others");
    s.not_yet("fruit", "fruit", "[null]");
  }
};

json schema() {
  return Section<Tree>::of().schema();
}

Tree tree_of(const json& value, const ProblemList& problems = {}) {
  Tree tree;
  const std::string pointer = "/tree";
  const PlaceMap places;
  BoundKeys keys(places, problems);
  Section<Tree>::of().read({value, pointer, keys}, tree);
  return tree;
}

}  // namespace

TEST_CASE("a section's schema states each key as it is bound", "[recipe]") {
  const json all = schema();
  CHECK(all["additionalProperties"] == false);
  CHECK(all["required"] == json::array({"height"}));
  const json& keys = all["properties"];
  CHECK(keys["width"] == json::parse(R"({"type": ["number", "null"], "exclusiveMinimum": 0,
      "description": "width; null: any", "default": null,
      "x-tenon-resume": [{"below": "", "change": "free",
                          "why": "the saved state does not depend on it"}]})"));
  CHECK(keys["height"]["maximum"] == 9);
  CHECK_FALSE(keys["height"].contains("default"));
  CHECK(keys["limit"] == json::parse(R"({"type": "number", "description": "limit"})"));
  CHECK(keys["note"] == json::parse(R"({"type": ["string", "null"], "minLength": 1,
      "description": "note", "default": null})"));
  CHECK(keys["color"] ==
        json::parse(R"({"enum": [null, "red", "blue"], "description": "color", "default": null})"));
  CHECK(keys["parts"] == json::parse(R"({"type": "array", "items": {"enum": ["a", "b"]},
      "minItems": 1, "description": "parts", "default": ["a"]})"));
  CHECK(keys["tags"]["type"] == json::array({"string", "array"}));
  CHECK(keys["tags"]["items"] == json::parse(R"({"type": "string"})"));
  CHECK(keys["ground"]["default"] == json::object());
  CHECK(keys["ground"]["properties"]["roots"]["default"] == 1);
  CHECK(keys["best"]["type"] == json::array({"object", "null"}));
  CHECK(keys["fruit"] ==
        json::parse(R"({"x-tenon-unavailable": {"what": "fruit", "unless": [null]}})"));
}

TEST_CASE("numbers of a schedule may be null, which is never", "[recipe]") {
  const json every = schema()["properties"]["every_windows"];
  CHECK(every["type"] == json::array({"integer", "null"}));
  CHECK(every["default"] == 0);
  CHECK(every["x-tenon-null"] == 0);
}

TEST_CASE("a section that is a component has its keys and its kind", "[recipe]") {
  const json leaf = schema()["properties"]["leaves"]["items"];
  CHECK(leaf["x-tenon-slot"] == "hook");
  CHECK(leaf["required"] == json::array({"type"}));
  CHECK(leaf["properties"]["options"]["default"] == json::object());
  CHECK(leaf["properties"]["weight"]["default"] == 2);
  const json other = schema()["properties"]["others"]["items"];
  CHECK(other["x-tenon-slot"] == "metric");
  CHECK(other["properties"].size() == 2);
}

TEST_CASE("an old name leads to the new one", "[recipe]") {
  CHECK(schema()["x-tenon-renamed"] == json::parse(R"({"size": "height"})"));
}

TEST_CASE("keys keep the order in which they are bound", "[recipe]") {
  const KeySchema ordered = Section<Tree>::of().schema();
  std::string order;
  for (const auto& [key, described] : ordered["properties"].items()) {
    order += key + " ";
  }
  CHECK(order ==
        "height width limit note color parts every_steps every_windows every_epochs tags bytes "
        "leaves named best ground others fruit ");
}

TEST_CASE("a section reads what its keys describe", "[recipe]") {
  const Tree tree = tree_of(json::parse(R"({"height": 5, "width": null, "note": "n",
      "color": "blue", "parts": ["b"], "every_steps": 7, "every_windows": 0, "every_epochs": 1,
      "tags": "one", "bytes": "2KiB", "ground": {"roots": 4}, "best": null})"));
  CHECK(tree.height == 5);
  CHECK_FALSE(tree.width);
  CHECK_FALSE(tree.limit);
  CHECK(tree.note == "n");
  CHECK(tree.color == Color::kBlue);
  CHECK_FALSE(tree.has_a);
  CHECK(tree.has_b);
  CHECK(tree.every == Schedule{.steps = 7, .windows = 0, .epochs = 1});
  CHECK(tree.tags == std::vector<std::string>{"one"});
  CHECK(tree.bytes == 2048);
  CHECK(tree.roots == 4);
  CHECK_FALSE(tree.best);
}

TEST_CASE("null leaves a member as it is", "[recipe]") {
  const Tree tree = tree_of(json::parse(R"({"height": 1, "note": null, "color": null})"));
  CHECK(tree.note.empty());
  CHECK(tree.color == Color::kNone);
}

TEST_CASE("components are read and visited by their places, in the order of the keys", "[recipe]") {
  Tree tree = tree_of(json::parse(R"({"height": 1,
      "leaves": [{"type": "a", "weight": 1}, {"type": "b", "weight": 0.5}, {"weight": 2}],
      "named": {"x": {"type": "c", "weight": 3}}, "best": {"type": "d", "weight": 9},
      "others": [{"type": "e"}]})"));
  CHECK(tree.leaves.at(1).weight == 0.5);
  CHECK(tree.named.at(0).name == "x");
  CHECK(tree.best->weight == 9);
  std::string found;
  Section<Tree>::of().visit(tree, [&found](ComponentUse& use) {
    found += use.kind + " " + use.type + " " + use.pointer + "\n";
  });
  CHECK(found ==
        "hook a /tree/leaves/0\n"
        "hook b /tree/leaves/1\n"
        "hook c /tree/named/x\n"
        "hook d /tree/best\n"
        "metric e /tree/others/0\n");
}

TEST_CASE("a value that has a problem leaves its member as it is", "[recipe]") {
  const auto at = [](const std::string& pointer) {
    return Problem{.id = "recipe.wrong_type", .place = {}, .pointer = pointer, .what = "wrong"};
  };
  const Tree tree = tree_of(json::parse(R"({"height": "tall", "width": 2, "tags": ["a", 5, "b"],
      "leaves": [3, {"type": 7, "weight": 4}], "ground": [], "named": {"x": 1}})"),
                            {at("/tree/height"),
                             at("/tree/tags/1"),
                             at("/tree/leaves/0"),
                             at("/tree/leaves/1/type"),
                             at("/tree/ground"),
                             at("/tree/named/x")});
  CHECK(tree.height == 3);
  CHECK(tree.width == 2);
  CHECK(tree.tags == std::vector<std::string>{"a", "", "b"});
  REQUIRE(tree.leaves.size() == 2);
  CHECK(tree.leaves[0].weight == 2);
  CHECK(tree.leaves[1].weight == 4);
  CHECK(tree.leaves[1].use.kind.empty());
  CHECK(tree.roots == 1);
  CHECK(tree.named.at(0).name == "x");
}

}  // namespace tenon
