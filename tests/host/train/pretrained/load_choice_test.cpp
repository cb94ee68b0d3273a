// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/load_choice.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Names = std::vector<std::string>;

LoadRecipe load_of(Names match, Names exclude, std::vector<LoadRename> rename = {}) {
  LoadRecipe load;
  load.pointer = "/load/0";
  load.match = std::move(match);
  load.exclude = std::move(exclude);
  load.rename = std::move(rename);
  return load;
}

}  // namespace

TEST_CASE("each star of a rename is the text that it was there", "[train]") {
  CHECK(renamed("bert.layer.3.weight", {"bert.*", "model.*"}) == "model.layer.3.weight");
  CHECK(renamed("bert", {"bert", "model"}) == "model");
  CHECK(renamed("a.b", {"a.b.*", "c.*"}) == std::nullopt);
  CHECK(renamed("layer.3.attn.weight", {"layer.*.attn.*", "blocks.*.self.*"}) ==
        "blocks.3.self.weight");
  CHECK(renamed("weight", {"*", "model.*"}) == "model.weight");
  CHECK(renamed("x.w.w", {"*.w", "*.v"}) == "x.w.v");
  CHECK(renamed("x.w.w", {"*.w*", "*+*"}) == "x+.w");  // the shortest text that fits
  CHECK(renamed("ab", {"ab*ba", "*"}) == std::nullopt);
  CHECK(renamed("", {"*", "x*"}) == "x");
  CHECK(renamed("a?c", {"a?c", "b"}) == "b");  // '?' stands for itself
  CHECK(renamed("abc", {"a?c", "b"}) == std::nullopt);
}

TEST_CASE("what is loaded is what matches and is not excluded, by names here", "[train]") {
  const LoadRecipe load =
      load_of({"model.*", "user"}, {"*.bias"}, {{"bert.*", "model.*"}, {"*", "other.*"}});
  const LoadChoice choice(load);
  CHECK(choice.takes("model.weight"));
  CHECK(choice.takes("user"));
  CHECK_FALSE(choice.takes("users"));
  CHECK_FALSE(choice.takes("model.bias"));
  CHECK(choice.name_here("bert.weight") == "model.weight");
  CHECK(choice.name_here("weight") == "other.weight");  // the first rule that fits
  CHECK_FALSE(choice.takes_all());
  const LoadRecipe all = load_of({"*"}, {});
  CHECK(LoadChoice(all).takes_all());
}

TEST_CASE("a pattern that fits no name is told, with its place", "[train]") {
  LoadRecipe load = load_of(
      {"head.*", "user", "?x"}, {"*.bias", "gone"}, {{"bert.*", "model.*"}, {"lost", "found"}});
  const Names here = {"head.weight", "ax"};
  const Names there = {"bert.bias", "user"};
  CHECK(LoadChoice(load).idle(here, there) ==
        Names{"/load/0/exclude/1: 'gone'", "/load/0/rename/1: 'lost'"});
  // Sources of a list may be called differently.
  load.is_strict = false;
  CHECK(LoadChoice(load).idle(here, there) == Names{"/load/0/exclude/1: 'gone'"});
  const LoadRecipe all = load_of({"*"}, {});
  CHECK(LoadChoice(all).idle({}, {}).empty());
}

}  // namespace tenon
