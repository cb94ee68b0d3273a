// SPDX-License-Identifier: Apache-2.0
//
// The check model.tensor: it names the block, the parameter or value, and the fix for each wrong
// declaration or missing border of a divided block, and passes blocks that are right, of each lane.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

using nlohmann::json;

// The words of a check. Without a recipe, the check guesses batches.
std::vector<std::string> check_command(const fs::path& plugin) {
  return {host_program().string(),
          "--check-plugin",
          plugin.string(),
          "--seed",
          "1",
          "--only",
          "model.tensor",
          "--plugin-dir",
          plugin_dir().string(),
          "--plugin-dir",
          test_plugin_dir().string()};
}

// Returns the result of the check, of a recipe with this model and sequences of `length` positions.
json checked(const fs::path& plugin, const json& model, int length = 8) {
  json recipe = json::parse(small_language_recipe());
  recipe["model"] = model;
  recipe["data"]["train"]["options"]["length"] = length;
  const ScratchFolder folder;
  std::vector<std::string> words = check_command(plugin);
  words.insert(words.end(),
               {"--json", "--recipe", folder.write("recipe.json", recipe.dump()).string()});
  const SubprocessResult process = run_subprocess(words, {});
  INFO(process.out << process.err);
  const json report = json::parse(process.out, nullptr, /*allow_exceptions=*/false);
  REQUIRE(report.is_object());
  const auto found = std::ranges::find_if(
      report["checks"], [](const json& check) { return check["name"] == "model.tensor"; });
  REQUIRE(found != report["checks"].end());
  return *found;
}

json with_fault(const std::string& fault, int length = 8) {
  return checked(test_plugin_dir() / "tensor_faults.so",
                 {{"type", "tensor_faults"}, {"options", {{"fault", fault}}}},
                 length);
}

void check_problem(const json& check,
                   const std::string& block,
                   const std::vector<std::string>& says) {
  INFO(check.dump(1));
  CHECK(check["outcome"] == "failed");
  REQUIRE(check["found"].size() == 1);
  const auto found = check["found"][0].get<std::string>();
  CHECK_THAT(found, contains_text("block \"" + block + "\" of model"));
  for (const std::string& text : says) {
    CHECK_THAT(found, contains_text(text));
  }
  CHECK_THAT(check["fix"].get<std::string>(), contains_text("tenon::tensor_in"));
}

}  // namespace

TEST_CASE("each wrong declaration of a divided block is found, with the name and the fix",
          "[check][plugins]") {
  struct Mistake {
    const char* fault;
    const char* block;
    std::vector<std::string> says;
  };
  for (const Mistake& mistake : std::vector<Mistake>{
           {"one_part", "attend", {R"(output "attended" differs)", "\"qkv\" [8, 8] of [16, 8]"}},
           {"units", "attend", {"4 ranks divide it", "\"qkv\" [4, 8] of [16, 8]"}},
           {"no_sum", "attend", {R"(output "attended")", "sum_over", "\"query.norm\" [4] of [8]"}},
           {"sum", "attend", {R"(output "attended")", "sum_over", "\"query.norm\" [4] of [8]"}},
           {"inside", "attend", {R"(gradient by "key.norm")", "flag it TENON_PARAM_INSIDE"}},
           {"outside", "attend", {R"(gradient by "attend.norm")", "remove TENON_PARAM_INSIDE"}},
           {"aux", "attend", {R"(gradient by "x")", "equal without auxiliary losses"}},
           {"no_in", "attend", {R"(gradient by "x")", "without tenon::tensor_in", "\"qkv\""}},
           {"residual", "attend", {R"(output "attended")", "no parameter causes it alone"}},
           {"no_out",
            "feed",
            {R"(output "fed")", R"(product of "down" through tenon::tensor_out)"}},
           {"bias", "feed", {R"(output "fed")", R"(add "down.bias" after tenon::tensor_out)"}},
           {"no_split",
            "feed",
            {"fails if 2 ranks divide it", "without a split are", "\"up.bias\" [12]"}},
           {"axis", "feed", {"fails if 2 ranks divide it", "\"down\" [4, 12] of [8, 12]"}},
           {"both", "feed", {R"(gradient by "feed.norm")", "declare two parameters"}},
           {"hand_out", "by_hand", {R"(gradient by "fed")", "through tenon::tensor_out"}},
           {"logits", "head", {"output 'logits'", "\"head\" [8, 8] of [16, 8]"}},
           {"head", "head", {"output 'logits'", "value \"logits\" (axis 2: 16 in 16 units)"}},
       }) {
    INFO(mistake.fault);
    check_problem(with_fault(mistake.fault), mistake.block, mistake.says);
  }
}

TEST_CASE("a mistake that shows on pieces of T alone is found", "[check][plugins]") {
  const std::vector<std::pair<std::string, std::string>> mistakes = {{"places", "attend"},
                                                                     {"hand_in", "by_hand"}};
  for (const auto& [fault, block] : mistakes) {
    INFO(fault);
    check_problem(with_fault(fault),
                  block,
                  {"fails if 2 ranks with 5 and 3 positions divide it",
                   "pass all that enters the region through tenon::tensor_in"});
  }
}

// Each rank of a pair would add the terms of the same heads.
TEST_CASE("a block with two regions is not divided by more ranks than one of them has units",
          "[check][plugins]") {
  const json check = checked(test_plugin_dir() / "divided_c.so", {{"type", "divided_c"}});
  check_problem(
      check,
      "decoder",
      {"8 ranks divide it", "equal if \"o.weight\" is zero", "ranks that share its units"});
}

// A recipe names one model, and the check runs all models of the plugin.
TEST_CASE("mistakes of divided blocks in plain C are found, and the right block passes",
          "[check][plugins]") {
  const json check = checked(test_plugin_dir() / "tensor_faults_c.so", {{"type", "tensor_c"}});
  INFO(check.dump(1));
  CHECK(check["outcome"] == "failed");
  REQUIRE(check["found"].size() == 3);
  const std::vector<std::vector<std::string>> says = {
      {"model \"tensor_c_no_in\"", R"(gradient by "x")", "without tenon::tensor_in"},
      {"model \"tensor_c_no_out\"", R"(output "y")", R"(the product of "down")"},
      {"model \"tensor_c_inside\"", R"(gradient by "norm")", "remove TENON_PARAM_INSIDE"}};
  for (std::size_t i = 0; i < says.size(); ++i) {
    for (const std::string& text : says[i]) {
      CHECK_THAT(check["found"][i].get<std::string>(), contains_text(text));
    }
  }
}

TEST_CASE("divided blocks that are right pass without a remark, of each length",
          "[check][plugins]") {
  for (const int length : {2, 3, 8}) {
    for (const std::string type : {"tensor_faults", "divided_lm", "tensor_lm"}) {
      const json check = checked(test_plugin_dir() / (type + ".so"), {{"type", type}}, length);
      INFO(type << check.dump(1));
      CHECK(check["outcome"] == "passed");
      CHECK(check["found"].empty());  // each of the blocks was compared
    }
  }
}

TEST_CASE("decoders pass the check of divided blocks", "[check][plugins]") {
  json decoder = json::parse(small_language_recipe())["model"];
  decoder["options"]["num_attention_heads"] = 4;
  for (const std::string type : {"deepseek_v3", "gemma3", "llama", "mixtral", "olmo2", "qwen3"}) {
    decoder["type"] = type;
    const json check = checked(plugin_dir() / (type + ".so"), decoder);
    INFO(type << check.dump(1));
    CHECK(check["outcome"] == "passed");
    CHECK(check["found"].dump().find("no block that is flagged") == std::string::npos);
  }
}

TEST_CASE("the check of divided blocks prints the mistake, and guesses batches without a recipe",
          "[check][plugins]") {
  const SubprocessResult process =
      run_subprocess(check_command(test_plugin_dir() / "tensor_faults_c.so"), {});
  INFO(process.out << process.err);
  CHECK(process.exit_code == 4);
  CHECK_THAT(process.out, contains_text("model.tensor"));
  CHECK_THAT(process.out, contains_text("\"tensor_c_no_out\""));
}

}  // namespace tenon
