// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/component_check.hpp"

#include "host/recipe/recipe_loader.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>

#include "tests/host/recipe/fake_catalog.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

std::string report(const std::vector<std::string>& sets) {
  return report_of(kSmallRecipe, sets);
}

json options_of(const ComponentUse& use) {
  return json::parse(use.options);
}

}  // namespace

TEST_CASE("a type that nobody offers is an error with the nearest and the folders", "[recipe]") {
  CHECK(report({"model.type=lama"}) ==
        "--set #1: /model/type: unknown type of model [recipe.unknown_type]\n"
        "    expected one of: llama, mlp\n"
        "    found: \"lama\"; did you mean \"llama\"?\n"
        "    plugins were searched in: build/plugins, /opt/plugins\n"
        "1 error in recipe.json; nothing was started");
  CHECK_THAT(report({"model.type=org.other/llama"}), contains_text("did you mean \"llama\"?"));
}

TEST_CASE("a type of another kind is recognised", "[recipe]") {
  CHECK_THAT(report({"model.type=cross_entropy"}),
             contains_text("found: \"cross_entropy\"; there is a loss with that name"));
}

TEST_CASE("a kind without any plugin says so", "[recipe]") {
  const ScratchFolder folder;
  const std::string path = folder.write("a.json", kSmallRecipe).string();
  class Empty : public ComponentCatalog {
   public:
    std::vector<CatalogEntry> find(const std::string&, const std::string&) const override {
      return {};
    }
    std::vector<std::string> types_of(const std::string&) const override { return {}; }
    std::vector<std::string> kinds() const override { return {}; }
    std::string searched() const override { return "nowhere"; }
  };
  try {
    (void)load_recipe({.path = path}, Empty());
    FAIL("no error");
  } catch (const RecipeErrors& errors) {
    CHECK(errors.problems().size() == 5);  // model, dataset, loss, optimizer, and the default sink
    CHECK_THAT(errors.report(),
               contains_text("expected a plugin that offers one, but none does\n"));
    CHECK_THAT(errors.report(),
               contains_text("default: /sinks/0/type: unknown type of metric_sink"));
  }
}

TEST_CASE("a type that two plugins offer is an error that names both", "[recipe]") {
  CHECK(report({"loss.type=mse"}) ==
        "--set #1: /loss/type: 2 plugins offer this loss [recipe.ambiguous_type]\n"
        "    found: \"mse\" in org.tenon.losses (build/plugins/losses.so) and com.example.mse "
        "(/opt/plugins/mse.so)\n"
        "    write \"org.tenon.losses/mse\" or \"com.example.mse/mse\"\n"
        "1 error in recipe.json; nothing was started");
  CHECK(report({"loss.type=com.example.mse/mse"}) == "no error");
}

TEST_CASE("options are held against the component's schema and completed", "[recipe]") {
  const ScratchFolder folder;
  const Recipe recipe = load_text(folder, kSmallRecipe, {"model.options.dim=64.0"});
  CHECK(recipe.model.use.kind == "model");
  CHECK(recipe.model.use.type == "llama");
  CHECK(recipe.model.use.plugin_id == "org.tenon.llama");
  CHECK(recipe.model.use.pointer == "/model");
  CHECK(options_of(recipe.model.use) == json::parse(R"({"dim": 64, "heads": 4, "dropout": 0.0,
    "activation": "swiglu", "tied": true})"));
  CHECK(options_of(recipe.model.use)["dim"].is_number_integer());
  CHECK_THAT(report({"model.options.headz=4"}),
             contains_text("--set #1: /model/options/headz: unknown key [recipe.unknown_key]\n"
                           "    expected one of: activation, dim, dropout, heads, tied\n"
                           "    found: \"headz\"; did you mean \"heads\"?\n"));
  CHECK_THAT(report({"model={\"type\": \"mlp\"}"}),
             contains_text("--set #1: /model/options/sizes: missing key [recipe.missing_key]\n"
                           "    expected list of at least 2 entries, each integer of at least 1\n"
                           "    widths from input to output\n"));
}

TEST_CASE("a component without a schema has no options", "[recipe]") {
  CHECK_THAT(report({"data.train={\"type\": \"numbers\", \"options\": {\"a\": 1}}"}),
             contains_text("/data/train/options/a: unknown key [recipe.unknown_key]\n"
                           "    expected no keys at all\n"));
}

TEST_CASE("a component inside options is checked against its own schema", "[recipe]") {
  const ScratchFolder folder;
  const Recipe recipe =
      load_text(folder, kSmallRecipe, {"data.train.options.tokenizer={\"type\": \"bpe\"}"});
  const ComponentUse& dataset = recipe.data.train.use;
  REQUIRE(dataset.nested.size() == 1);
  CHECK(dataset.nested[0].option == "/tokenizer");
  const ComponentUse& tokenizer = dataset.nested[0].use;
  CHECK(tokenizer.kind == "tokenizer");
  CHECK(tokenizer.type == "bpe");
  CHECK(tokenizer.plugin_id == "org.tenon.bpe");
  CHECK(tokenizer.pointer == "/data/train/options/tokenizer");
  CHECK(tokenizer.ref.empty());
  REQUIRE(tokenizer.nested.size() == 1);  // a default of the schema is a component too
  CHECK(tokenizer.nested[0].option == "/fallback");
  CHECK(tokenizer.nested[0].use.type == "byte");
  CHECK(options_of(dataset)["tokenizer"]["options"] == options_of(tokenizer));
  CHECK_THAT(report({"data.train.options.tokenizer={\"type\": \"byt\"}"}),
             contains_text("/data/train/options/tokenizer/type: unknown type of tokenizer"));
  CHECK_THAT(
      report({"data.train.options.tokenizer={\"type\": \"bpe\", \"options\": {\"merge\": 1}}"}),
      contains_text("/data/train/options/tokenizer/options/merge: unknown key"));
}

TEST_CASE("null stands for no component where the schema allows it", "[recipe]") {
  const ScratchFolder folder;
  const Recipe recipe =
      load_text(folder,
                kSmallRecipe,
                {R"(data.train.options.tokenizer={"type": "bpe", "options": {"fallback": null}})"});
  CHECK(recipe.data.train.use.nested.at(0).use.nested.empty());
}

TEST_CASE("a reference leads to a component of its kind", "[recipe]") {
  const ScratchFolder folder;
  const Recipe recipe =
      load_text(folder,
                kSmallRecipe,
                {"data.eval.type=text",
                 "data.eval.options.path=e.txt",
                 R"(data.eval.options.tokenizer={"ref": "/data/train/options/tokenizer"})"});
  const ComponentUse& eval = recipe.data.eval.at(0).data.use;
  CHECK(eval.nested.at(0).use.ref == "/data/train/options/tokenizer");
  CHECK(eval.nested.at(0).use.type.empty());
  CHECK(eval.nested.at(0).use.pointer == "/data/eval/options/tokenizer");
}

TEST_CASE("a reference that leads elsewhere is an error", "[recipe]") {
  const auto refer = [](const std::string& target) {
    return report(
        {"data.eval={\"type\": \"text\", \"options\": {\"path\": \"e\", \"tokenizer\": "
         "{\"ref\": \"" +
         target + "\"}}}"});
  };
  CHECK(refer("/data/tran") ==
        "--set #1: /data/eval/options/tokenizer/ref: there is no component at this pointer "
        "[recipe.bad_ref]\n"
        "    expected one of: /data/train/options/tokenizer\n"
        "    found: \"/data/tran\"\n"
        "    use the JSON pointer of a component in this recipe, as the recipe writes it\n"
        "1 error in recipe.json; nothing was started");
  CHECK_THAT(refer("/model"), contains_text("refers to a model where a tokenizer is needed"));
  CHECK_THAT(refer("/data/eval/options/tokenizer"), contains_text("refers to another reference"));
}

TEST_CASE("references that need each other are an error", "[recipe]") {
  const std::string text = report(
      {R"(data.train.options.tokenizer={"type": "bpe", "options": {"fallback": {"ref": "/data/train/options/tokenizer"}}})"});
  CHECK_THAT(text,
             contains_text("/data/train/options/tokenizer/options/fallback/ref: circular "
                           "reference: the other component needs this one "
                           "[recipe.bad_ref]"));
  const std::string both = report(
      {R"(data.train.options.tokenizer={"type": "bpe", "options": {"fallback": {"ref": "/data/eval/options/tokenizer"}}})",
       R"(data.eval={"type": "text", "options": {"path": "e", "tokenizer": {"type": "bpe", "options": {"fallback": {"ref": "/data/train/options/tokenizer"}}}}})"});
  CHECK_THAT(both, contains_text("2 errors"));
  CHECK_THAT(both, contains_text("break the cycle"));
}

TEST_CASE("paths are relative to the recipe, those of --set to the current folder", "[recipe]") {
  const ScratchFolder folder;
  const std::string here = std::filesystem::current_path().string();
  const std::string there = folder.path().string();
  const Recipe written = load_text(folder, kSmallRecipe, {"data.train.options.more=[\"x/../y\"]"});
  CHECK(options_of(written.data.train.use)["path"] == there + "/kjv.txt");
  CHECK(options_of(written.data.train.use)["more"][0] == here + "/y");
  const Recipe set = load_text(folder,
                               kSmallRecipe,
                               {"data.train.options.path=/abs/k.txt",
                                R"(data.train.options.tokenizer={"type": "bpe"})",
                                R"(data.train.options.more=["", "s3://bucket/x", "../a"])"});
  const json options = options_of(set.data.train.use);
  CHECK(options["path"] == "/abs/k.txt");
  CHECK(options["more"][0] == "");
  CHECK(options["more"][1] == "s3://bucket/x");
  CHECK(options["more"][2] == std::filesystem::path(here + "/../a").lexically_normal().string());
  CHECK(options["tokenizer"]["options"]["merges"] == there + "/merges.txt");  // a default
}

TEST_CASE("paths of a recipe in the current folder are absolute", "[recipe]") {
  const ScratchFolder folder;
  folder.write("here.json", kSmallRecipe);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const std::string here = std::filesystem::current_path().string();
  const Recipe recipe =
      load_recipe({.path = "here.json", .sets = {}, .compute_threads = 1}, FakeCatalog());
  std::filesystem::current_path(before);
  CHECK(options_of(recipe.data.train.use)["path"] == here + "/kjv.txt");
}

TEST_CASE("the kill switch is a path too", "[recipe]") {
  const ScratchFolder folder;
  std::string text = kSmallRecipe;
  text.replace(text.find("\"steps\": 3"), 10, "\"steps\": 3, \"kill_switch\": \"stop\"");
  CHECK(load_text(folder, text).train.kill_switch == folder.path().string() + "/stop");
}

TEST_CASE("a group takes the optimizer's options and changes some", "[recipe]") {
  const ScratchFolder folder;
  const Recipe recipe = load_text(folder,
                                  kSmallRecipe,
                                  {"optimizer.options.lr=0.5",
                                   R"(optimizer.groups=[{"match": "*.bias", "weight_decay": 0.0},
                            {"match": "embed*", "type": "sgd", "lr": 2},
                            {"match": "x", "type": "org.tenon.adamw/adamw", "betas": [0, 0.5]}])"});
  REQUIRE(recipe.optimizer.groups.size() == 3);
  const OptimizerGroup& bias = recipe.optimizer.groups[0];
  CHECK(bias.match == "*.bias");
  CHECK(bias.use.type == "adamw");
  CHECK(bias.use.pointer == "/optimizer/groups/0");
  CHECK(options_of(bias.use) ==
        json::parse(R"({"lr": 0.5, "betas": [0.9, 0.999], "weight_decay": 0.0})"));
  const OptimizerGroup& embed = recipe.optimizer.groups[1];
  CHECK(embed.use.type == "sgd");
  CHECK(embed.use.plugin_id == "org.tenon.sgd");
  CHECK(options_of(embed.use) == json::parse(R"({"lr": 2, "momentum": 0.0})"));
  // Another name for the same type is the same type.
  CHECK(options_of(recipe.optimizer.groups[2].use)["lr"] == 0.5);
}

TEST_CASE("what is wrong in a group is said of the group", "[recipe]") {
  CHECK(report({R"(optimizer.groups=[{"match": "*", "weigth_decay": 0.1}])"}) ==
        "--set #1: /optimizer/groups/0/weigth_decay: unknown key [recipe.unknown_key]\n"
        "    expected one of: betas, lr, weight_decay\n"
        "    found: \"weigth_decay\"; did you mean \"weight_decay\"?\n"
        "1 error in recipe.json; nothing was started");
  CHECK_THAT(report({R"(optimizer.groups=[{"match": "*", "lr": -1}])"}),
             contains_text("/optimizer/groups/0/lr: out of range"));
  CHECK_THAT(report({R"(optimizer.groups=[{"match": "*", "type": "sgd"}])"}),
             contains_text("/optimizer/groups/0/lr: missing key"));
  CHECK_THAT(report({R"(optimizer.groups=[{"match": "*", "type": "sdg"}])"}),
             contains_text("/optimizer/groups/0/type: unknown type of optimizer"));
  CHECK_THAT(report({R"(optimizer.groups=[{"lr": 1}])"}),
             contains_text("/optimizer/groups/0/match: missing key"));
}

TEST_CASE("an error of the optimizer is not repeated for its groups", "[recipe]") {
  const std::string text =
      report({"optimizer.options.lr=-1",
              R"(optimizer.groups=[{"match": "a"}, {"match": "b", "weight_decay": 0}])"});
  CHECK_THAT(text, contains_text("--set #1: /optimizer/options/lr: out of range"));
  CHECK_THAT(text, contains_text("1 error in"));
  CHECK_THAT(report({"optimizer.type=adam", R"(optimizer.groups=[{"match": "a"}])"}),
             contains_text("1 error in"));
}

TEST_CASE("a schema that is none ends the check with the plugin's name", "[recipe]") {
  const ScratchFolder folder;
  try {
    (void)load_text(folder, kSmallRecipe, {"hooks=[{\"type\": \"broken\"}]"});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "plugin.bad_schema");
    CHECK(error.exit_code() == ExitCode::kPlugin);
    CHECK_THAT(error.message(),
               contains_text("the hook \"broken\" of com.example.broken (/opt/plugins/broken.so)"));
  }
}

}  // namespace tenon
