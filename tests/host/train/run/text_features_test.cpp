// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/text_features.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/host/train/run/run_rig.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

std::vector<std::string> names_of_fields(const TextFeatures& features) {
  std::vector<std::string> names;
  for (const FieldInfo& field : features.fields()) {
    names.push_back(field.name);
  }
  return names;
}

}  // namespace

TEST_CASE("a text has the features of its tokens, and no others", "[train]") {
  const RunRig rig(R"({"features": [
    {"name": "n", "from": "input_ids", "do": [{"type": "ngram"}]},
    {"name": "label_hash", "from": "labels", "do": [{"type": "hash"}]},
    {"name": "both", "from": ["n.0", "label_hash"], "do": [{"type": "stack"}]},
    {"name": "small", "from": "n.1", "do": [{"type": "mod", "options": {"buckets": 10}}]},
    {"name": "segmented", "from": ["input_ids", "segment_ids"],
     "do": [{"type": "ngram", "options": {"n": [2]}}]}]})");
  TextFeatures features(rig.context().factory);
  REQUIRE(names_of_fields(features) ==
          std::vector<std::string>{"n.0", "n.1", "small", "segmented"});

  // Ids as Python computes them, of a text that is one segment.
  const nlohmann::json golden =
      nlohmann::json::parse(file_text(source_dir() / "tests" / "parity" / "ngram_golden.json"));
  const auto tokens = golden["rows"][0].get<std::vector<int64_t>>();
  const std::vector<at::Tensor> made = features.values(tokens);
  REQUIRE(made.size() == 4);
  for (int64_t n = 0; n < 2; ++n) {
    for (size_t t = 0; t < tokens.size(); ++t) {
      const auto id = golden["cases"][0]["columns"][static_cast<size_t>(n)][t].get<std::string>();
      CHECK(static_cast<uint64_t>(
                made[static_cast<size_t>(n)][0][static_cast<int64_t>(t)].item<int64_t>()) ==
            std::stoull(id));
    }
  }
  CHECK(at::equal(made[3], made[0]));
  // The entries of a longer text begin with those of a shorter one.
  const std::vector<at::Tensor> shorter = features.values({tokens.begin(), tokens.begin() + 4});
  for (size_t f = 0; f < made.size(); ++f) {
    CHECK(at::equal(shorter[f], made[f].narrow(1, 0, 4)));
  }
}

TEST_CASE("a recipe without features of tokens gives a text no fields", "[train]") {
  const RunRig rig;
  TextFeatures features(rig.context().factory);
  CHECK(features.fields().empty());
  CHECK(features.values({1, 2, 3}).empty());
}

}  // namespace tenon
