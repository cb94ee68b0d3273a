// SPDX-License-Identifier: Apache-2.0
//
// The check model.context: it names what differs on parts of the positions for each block that is
// flagged TENON_BLOCK_CONTEXT by mistake, and passes those that are flagged rightly, of each lane.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
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

// Returns the result of the check: outcome, and what it found. The recipe has a model of the
// plugin, and sequences of `length` positions.
json checked(const fs::path& plugin, const json& model, int length = 8) {
  json recipe = json::parse(small_language_recipe());
  recipe["model"] = model;
  recipe["data"]["train"]["options"]["length"] = length;
  const ScratchFolder folder;
  const SubprocessResult process =
      run_subprocess({host_program().string(),
                      "--check-plugin",
                      plugin.string(),
                      "--json",
                      "--seed",
                      "1",
                      "--only",
                      "model.context",
                      "--recipe",
                      folder.write("recipe.json", recipe.dump()).string(),
                      "--plugin-dir",
                      plugin_dir().string(),
                      "--plugin-dir",
                      test_plugin_dir().string()},
                     {});
  INFO(process.out << process.err);
  const json report = json::parse(process.out, nullptr, /*allow_exceptions=*/false);
  REQUIRE(report.is_object());
  const auto found = std::ranges::find_if(
      report["checks"], [](const json& check) { return check["name"] == "model.context"; });
  REQUIRE(found != report["checks"].end());
  return *found;
}

json with_fault(const std::string& fault, int length = 8) {
  return checked(test_plugin_dir() / "context_faults.so",
                 {{"type", "context_faults"}, {"options", {{"fault", fault}}}},
                 length);
}

}  // namespace

TEST_CASE("each block that is flagged context by mistake is found", "[check][plugins]") {
  struct Mistake {
    const char* fault;
    const char* block;
    const char* says;
  };
  for (const Mistake& mistake : {
           Mistake{"positions", "embed", R"(output "x" differs)"},
           Mistake{"by_hand", "attend", R"(output "y" differs)"},
           Mistake{"mean", "attend", R"(output "y" differs)"},
           Mistake{"sum", "attend", R"(output "y" differs)"},
           Mistake{"half", "attend", "must have the 6 positions of this rank"},
           Mistake{"gradient", "attend", R"(the gradient by "x" differs)"},
           Mistake{
               "parameter", "attend", R"(the gradient by "scale", added up over ranks, differs)"},
           Mistake{"buffer", "attend", R"(the next value of buffer "seen" differs)"},
           Mistake{
               "loss", "attend", R"(the auxiliary loss "squares", which is no sum over tokens,)"},
           Mistake{"pooled", "attend", R"("pooled" has no axis T)"},
           Mistake{"skip", "attend", R"(rank 0 sends "heads of attention", rank 1 "count of)"},
       }) {
    const json check = with_fault(mistake.fault);
    INFO(mistake.fault << check.dump(1));
    CHECK(check["outcome"] == "failed");
    REQUIRE(check["found"].size() == 1);
    const auto found = check["found"][0].get<std::string>();
    CHECK_THAT(found, contains_text(std::string("block \"") + mistake.block + "\" of model"));
    CHECK_THAT(found, contains_text(mistake.says));
    CHECK_THAT(check["fix"].get<std::string>(), contains_text("position_ids"));
  }
}

TEST_CASE("a flagged block may refuse a part without positions, which is a remark",
          "[check][plugins]") {
  const json check = with_fault("refuse");
  INFO(check.dump(1));
  CHECK(check["outcome"] == "passed");
  CHECK_THAT(check["found"].dump(), contains_text("refuses a part without positions"));
}

TEST_CASE("the check of flags passes blocks of each lane that are flagged rightly",
          "[check][plugins]") {
  json decoder = json::parse(small_language_recipe())["model"];
  CHECK(checked(plugin_dir() / "llama.so", decoder)["outcome"] == "passed");
  decoder["type"] = "qwen2";
  decoder["options"]["num_key_value_heads"] = 1;
  decoder["options"]["attention_dropout"] = 0.25;
  const json dropped = checked(plugin_dir() / "qwen2.so", decoder, 5);
  INFO(dropped.dump(1));
  CHECK(dropped["outcome"] == "passed");
  CHECK_THAT(dropped["found"].dump(), contains_text("only evaluations of it were compared"));
  for (const std::string type :
       {"c_decoder", "context_faults", "part_lm", "part_module", "part_stable"}) {
    for (const int length : {2, 3, 8}) {
      const json check = checked(test_plugin_dir() / (type + ".so"), {{"type", type}}, length);
      INFO(type << check.dump(1));
      CHECK(check["outcome"] == "passed");
      CHECK(check["found"].empty());  // no remark that something was not compared
    }
  }
}

}  // namespace tenon
