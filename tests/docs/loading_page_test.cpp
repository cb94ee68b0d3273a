// SPDX-License-Identifier: Apache-2.0
//
// The loads that the page about loading shows are valid parts of a recipe.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

#include "tests/docs/markdown.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

constexpr char kRecipe[] = R"({
  "model": {"type": "llama", "options": {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 176,
                                         "num_hidden_layers": 2, "num_attention_heads": 4}},
  "data": {"batch_size": 8, "train": {"type": "text", "options": {"path": "book.txt"}}},
  "loss": {"type": "cross_entropy"}, "optimizer": {"type": "adamw", "options": {"lr": 1e-3}},
  "train": {"steps": 100}})";

}  // namespace

TEST_CASE("each load on the page about loading is valid", "[docs]") {
  int num_loads = 0;
  for (const FencedBlock& block : fenced_blocks(read_text(source_dir() / "docs/loading.md"))) {
    INFO("docs/loading.md:" << block.line);
    REQUIRE(block.language == "json");
    nlohmann::json recipe = nlohmann::json::parse(kRecipe);
    recipe.update(nlohmann::json::parse("{" + block.text + "}"));
    REQUIRE(recipe["load"].is_array());
    if (block.text.find("\"s3\"") != std::string::npos &&
        !std::filesystem::exists(plugin_dir() / "s3.so")) {
      continue;  // it is made where Arrow is
    }
    const ScratchFolder desk;
    desk.write("recipe.json", recipe.dump());
    desk.write("book.txt", std::string(4096, 'a'));
    SubprocessOptions options;
    options.working_dir = desk.path().string();
    options.environment = {{"XDG_CACHE_HOME", (desk.path() / "cache").string()}};
    const SubprocessResult result = run_subprocess({host_program().string(),
                                                    "--recipe",
                                                    "recipe.json",
                                                    "--plugin-dir",
                                                    plugin_dir().string(),
                                                    "--validate"},
                                                   options);
    INFO(result.err);
    CHECK(result.exit_code == 0);
    ++num_loads;
  }
  CHECK(num_loads >= 6);
}

}  // namespace tenon
