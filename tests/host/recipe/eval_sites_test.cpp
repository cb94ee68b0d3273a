// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/eval_sites.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {

using nlohmann::json;

TEST_CASE("one dataset to evaluate is distinguished from several by name", "[recipe]") {
  CHECK(is_single_dataset(json::parse(R"({"type": "text"})")));
  CHECK(is_single_dataset(json::parse(R"({"type": "text", "options": {}})")));
  CHECK(is_single_dataset(json::parse(R"({"options": {}})")));
  CHECK(is_single_dataset(json::parse(R"({"mix": []})")));
  CHECK(is_single_dataset(json::object()));
  CHECK_FALSE(is_single_dataset(json::parse(R"({"kjv": {"type": "text"}})")));
  CHECK_FALSE(is_single_dataset(json::parse(R"({"a": {}, "b": {}})")));
}

TEST_CASE("datasets are found by their pointers", "[recipe]") {
  const json root = json::parse(R"({"data": {"train": {"type": "a"}, "eval": {"type": "b"},
      "test": {"y": {"type": "c"}, "x": {"type": "d"}}}})");
  CHECK(dataset_pointers(root) ==
        std::vector<std::string>{"/data/train", "/data/eval", "/data/test/x", "/data/test/y"});
  const std::vector<EvalSite> sites = eval_sites(root);
  REQUIRE(sites.size() == 3);
  CHECK(sites[0].list == "eval");
  CHECK(sites[0].name.empty());
  CHECK(sites[1].list == "test");
  CHECK(sites[1].name == "x");
  CHECK(eval_sites(json::parse(R"({"data": {"eval": null, "test": 3}})")).empty());
}

}  // namespace tenon
