// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/recipe_difference.hpp"

#include "host/error/error.hpp"
#include "host/json/expand.hpp"
#include "host/json/json_path.hpp"
#include "host/recipe/recipe_schema.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// A recipe in its long form, with a patch of JSON Merge Patch.
std::string recipe_with(const std::string& patch) {
  json recipe = json::parse(R"({
    "name": "a", "seed": 1, "device": "cpu", "threads": {"compute": 2},
    "models": {"main": {"type": "mlp", "options": {"hidden": [8], "tokenizer": {"type": "bpe",
      "options": {"path": "/data/a.json"}}}, "frozen": []}},
    "data": {"batch_size": 4, "shuffle": true, "loader_threads": 1,
      "train": {"type": "text", "options": {"path": "/data/one.txt", "length": 8}}, "eval": null},
    "losses": [{"name": "lm", "type": "cross_entropy", "weight": 1.0, "options": {}}],
    "tables": {"user": {"dim": 8, "optimizer": {"type": "adagrad", "options": {"lr": 0.1}}}},
    "optimizer": {"type": "adamw", "options": {"lr": 0.1}, "groups": [{"match": "*.bias", "lr": 0.2}]},
    "lr_scheduler": null,
    "hooks": [{"type": "early_stop", "options": {"patience": 3}}, {"type": "trace", "options": {}}],
    "train": {"steps": 10, "global_batch_size": null, "gradient_accumulation": 2, "precision": "fp32"},
    "eval": {"every_steps": 0, "with_window": null}, "checkpoint": null,
    "sinks": [{"type": "jsonl", "options": {}}]})");
  recipe.merge_patch(json::parse(patch));
  return recipe.dump();
}

std::vector<RecipeChange> changes(const std::string& patch, const std::string& base = "{}") {
  return recipe_changes({recipe_with(base), 1}, {recipe_with(patch), 1});
}

// "class /pointer" of each change, with commas.
std::string outline(const std::vector<RecipeChange>& found) {
  std::string text;
  for (const RecipeChange& change : found) {
    text += (text.empty() ? "" : ", ") + std::string(change_class_name(change.change)) + " " +
            change.pointer;
  }
  return text;
}

std::string outline(const std::string& patch, const std::string& base = "{}") {
  return outline(changes(patch, base));
}

// The pointers of all keys that a recipe has in its long form, with "*" for names and numbers.
void collect(const json& schema, const std::string& pointer, std::vector<std::string>& keys) {
  if (schema.contains("x-tenon-unavailable")) {
    return;  // refused, or not in a frozen recipe
  }
  keys.push_back(pointer);
  if (const auto properties = schema.find("properties"); properties != schema.end()) {
    for (const auto& [key, value] : properties->items()) {
      collect(value, join_pointer(pointer, key), keys);
    }
  }
  if (const auto items = schema.find("items"); items != schema.end() && items->is_object()) {
    collect(*items, pointer + "/*", keys);
  }
  if (const auto any = schema.find("additionalProperties");
      any != schema.end() && any->is_object()) {
    collect(*any, pointer + "/*", keys);
  }
}

// The table of the page.
std::string rules_table() {
  std::string text = "| key | may change | because |\n|---|---|---|\n";
  for (const ResumeRule& rule : resume_rules()) {
    const char* const may = rule.change == ChangeClass::kFree    ? "yes"
                            : rule.change == ChangeClass::kWarns ? "with a warning"
                                                                 : "no";
    text += "| `" + std::string(rule.key) + "` | " + may + " | " + std::string(rule.why) + " |\n";
  }
  return text;
}

}  // namespace

TEST_CASE("recipes that are equal have no differences", "[recipe]") {
  CHECK(changes("{}").empty());
  CHECK(changes(
            R"({"losses": [{"name": "lm", "type": "cross_entropy", "weight": 1, "options": {}}]})")
            .empty());  // 1 is 1.0
}

TEST_CASE("what a run may change is free", "[recipe]") {
  CHECK(outline(R"({"name": "b"})") == "free /name");
  CHECK(outline(R"({"train": {"steps": 20, "log_every": 1}})") ==
        "free /train/log_every, free /train/steps");
  CHECK(outline(R"({"data": {"loader_threads": 3}})") == "free /data/loader_threads");
  CHECK(outline(R"({"checkpoint": {"every_steps": 5}})") == "free /checkpoint");
  CHECK(outline(R"({"sinks": []})") == "free /sinks/0");
  CHECK(outline(R"({"eval": {"every_steps": 5}, "parallel": {"shard": 2}})") ==
        "free /eval/every_steps, free /parallel");
}

TEST_CASE("what makes it another run warns", "[recipe]") {
  CHECK(outline(R"({"optimizer": {"options": {"lr": 0.2}}})") == "warns /optimizer/options/lr");
  CHECK(outline(R"({"threads": {"compute": 4}, "device": "cuda"})") ==
        "warns /device, warns /threads/compute");
  CHECK(outline(R"({"lr_scheduler": {"type": "cosine", "options": {}}})") == "warns /lr_scheduler");
  CHECK(
      outline(R"({"tables": {"user": {"optimizer": {"options": {"lr": 1}}, "bytes": "1GiB"}}})") ==
      "free /tables/user/bytes, warns /tables/user/optimizer/options/lr");
  CHECK(
      outline(
          R"({"losses": [{"name": "lm", "type": "cross_entropy", "weight": 2, "options": {}}]})") ==
      "warns /losses/0/weight");
}

TEST_CASE("what would not fit, or mean something else, is refused", "[recipe]") {
  CHECK(outline(R"({"seed": 2})") == "refused /seed");
  CHECK(outline(R"({"models": {"main": {"options": {"hidden": [16]}}}})") ==
        "refused /models/main/options/hidden");
  CHECK(outline(R"({"models": {"main": {"frozen": ["*"]}}})") == "refused /models/main/frozen");
  CHECK(outline(R"({"data": {"shuffle": false, "train": {"options": {"length": 9}}}})") ==
        "refused /data/shuffle, refused /data/train/options/length");
  CHECK(outline(R"({"tables": {"user": {"dim": 4}}})") == "refused /tables/user/dim");
  CHECK(outline(R"({"tables": {"user": null}})") == "refused /tables/user");
  CHECK(outline(R"({"features": [{"name": "x"}]})") == "refused /features");
  CHECK(outline(R"({"unheard_of": 1})") == "refused /unheard_of");
}

TEST_CASE("what happens to late and bad data may change", "[recipe]") {
  const std::string windows = R"({"data": {"train": {"type": "columnar", "options": {"windows": )";
  CHECK(outline(windows + R"({"by": "time", "bad_files": "skip", "follow": {"max_wait": 1}}}}}})",
                windows + R"({"by": "time", "bad_files": "fail", "follow": null}}}}})") ==
        "warns /data/train/options/windows/bad_files, warns /data/train/options/windows/follow");
  CHECK(outline(windows + R"({"by": "time", "late": "skip"}}}}})",
                windows + R"({"by": "time"}}}}})") == "warns /data/train/options/windows/late");
  CHECK(outline(windows + R"({"by": "time"}}}}})", windows + R"({"by": "files"}}}}})") ==
        "refused /data/train/options/windows/by");
}

TEST_CASE("a component of another type is one difference", "[recipe]") {
  const auto found = changes(R"({"optimizer": {"type": "sgd", "options": {"momentum": 1}}})");
  REQUIRE(found.size() == 1);
  CHECK(found[0].pointer == "/optimizer");
  CHECK(found[0].change == ChangeClass::kRefused);
  CHECK_THAT(found[0].before, contains_text("adamw"));
  CHECK_THAT(found[0].now, contains_text("sgd"));
}

TEST_CASE("lists are compared around what was added or removed", "[recipe]") {
  CHECK(outline(R"({"hooks": [{"type": "new"}, {"type": "early_stop", "options": {"patience": 3}},
                              {"type": "trace", "options": {}}]})") == "warns /hooks/0");
  CHECK(outline(R"({"hooks": [{"type": "trace", "options": {}}]})") == "warns /hooks/0");
  CHECK(outline(R"({"hooks": [{"type": "early_stop", "options": {"patience": 4}},
                              {"type": "trace", "options": {}}]})") ==
        "warns /hooks/0/options/patience");
  const auto added = changes(R"({"hooks": [{"type": "early_stop", "options": {"patience": 3}},
      {"type": "trace", "options": {}}, {"type": "z"}]})");
  REQUIRE(added.size() == 1);
  CHECK(added[0].pointer == "/hooks/2");
  CHECK(added[0].before.empty());
  CHECK(added[0].now == R"({"type":"z"})");
  CHECK(outline(R"({"optimizer": {"groups": [{"match": "*.bias", "lr": 0.3}]}})") ==
        "warns /optimizer/groups/0/lr");
  CHECK(outline(R"({"optimizer": {"groups": [{"match": "*.b", "lr": 0.2}]}})") ==
        "refused /optimizer/groups/0/match");
  CHECK(outline(R"({"optimizer": {"groups": []}})") == "refused /optimizer/groups/0");
}

TEST_CASE("a place may be another one, whose content must be the same", "[recipe]") {
  CHECK(outline(R"({"data": {"train": {"options": {"path": "/mnt/one.txt"}}}})") ==
        "warns /data/train/options/path");
  CHECK(outline(R"({"models": {"main": {"options": {"tokenizer": {"options":
        {"path": "s3://b/a.json"}}}}}})") == "warns /models/main/options/tokenizer/options/path");
  CHECK(outline(R"({"data": {"train": {"options": {"path": ["/a", "/b"]}}}})") ==
        "warns /data/train/options/path");
  CHECK(outline(R"({"data": {"train": {"options": {"path": ["/a", 1]}}}})") ==
        "refused /data/train/options/path");
}

TEST_CASE("batches may be cut otherwise where a step has as many samples", "[recipe]") {
  CHECK(outline(R"({"data": {"batch_size": 8}, "train": {"gradient_accumulation": 1}})") ==
        "free /data/batch_size, free /train/gradient_accumulation");
  const auto found = changes(R"({"data": {"batch_size": 8}})");
  REQUIRE(found.size() == 1);
  CHECK(found[0].change == ChangeClass::kWarns);
  CHECK(found[0].why == "a step has 16 samples instead of 8");
  CHECK(outline(R"({"train": {"global_batch_size": 8, "gradient_accumulation": null}})") ==
        "free /train/global_batch_size, free /train/gradient_accumulation");
}

TEST_CASE("a step of tokens has as many rows as before on other ranks", "[recipe]") {
  const std::string packed = recipe_with(R"({"data": {"train": {"packing": {"length": 50}}},
    "train": {"global_batch_tokens": 400, "gradient_accumulation": null}})");
  CHECK(recipe_changes({packed, 1}, {packed, 2}).empty());
  const auto wider =
      recipe_changes({packed, 1},
                     {recipe_with(R"({"data": {"train": {"packing": {"length": 100}}},
        "train": {"global_batch_tokens": 400, "gradient_accumulation": null}})"),
                      1});
  REQUIRE_FALSE(wider.empty());
  CHECK(std::ranges::any_of(wider, [](const RecipeChange& change) {
    return change.pointer == "/data/train/packing/length" && change.change == ChangeClass::kRefused;
  }));
}

TEST_CASE("ranks alone may change what a step has", "[recipe]") {
  const std::string derived = recipe_with("{}");
  const auto found = recipe_changes({derived, 1}, {derived, 2});
  REQUIRE(found.size() == 1);
  CHECK(found[0].pointer.empty());
  CHECK(found[0].change == ChangeClass::kWarns);
  CHECK(changes_text(found) == "warns    1 rank -> 2 ranks; a step has 16 samples instead of 8\n");
  const std::string fixed =
      recipe_with(R"({"train": {"global_batch_size": 8, "gradient_accumulation": null}})");
  CHECK(recipe_changes({fixed, 1}, {fixed, 2}).empty());
}

TEST_CASE("a horizon is free, unless a schedule is as long", "[recipe]") {
  const std::string scheduled = R"({"lr_scheduler": {"type": "cosine", "options": {}}})";
  CHECK(outline(R"({"train": {"steps": 20}})") == "free /train/steps");
  CHECK(outline(R"({"train": {"steps": 20}, "lr_scheduler": {"type": "cosine", "options": {}}})",
                scheduled) == "warns /train/steps");
}

TEST_CASE("precisions that keep parameters in fp32 may follow each other", "[recipe]") {
  CHECK(outline(R"({"train": {"precision": "bf16_autocast"}})") == "warns /train/precision");
  CHECK(outline(R"({"train": {"precision": "bf16_params"}})") == "warns /train/precision");
  for (const char* const other : {"fp64", "bf16", "fp16_autocast"}) {
    CHECK(outline(R"({"train": {"precision": ")" + std::string(other) + "\"}}") ==
          "refused /train/precision");
  }
}

TEST_CASE("evaluation sets may change where they do not go along with windows", "[recipe]") {
  CHECK(outline(R"({"data": {"eval": {"type": "text"}}})") == "warns /data/eval");
  CHECK(outline(R"({"data": {"eval": {"type": "text"}}, "eval": {"with_window": "after"}})",
                R"({"eval": {"with_window": "after"}})") == "refused /data/eval");
}

TEST_CASE("differences are printed a line each, those that are refused first", "[recipe]") {
  const auto found = changes(
      R"({"name": "b", "seed": 2, "device": "cuda", "hooks": [{"type": "trace", "options": {}}]})");
  CHECK(changes_text(found) ==
        "refused  /seed: 1 -> 2; random numbers and the order of the data depend on it\n"
        "warns    /device: \"cpu\" -> \"cuda\"; results differ in the last bits\n"
        "warns    /hooks/0: {\"options\":{\"patience\":3},\"type\":\"early_stop\"} -> (nothing); "
        "the state of a removed hook is lost; a new hook with state may refuse\n"
        "free     /name: \"a\" -> \"b\"; the saved state does not depend on it\n");
}

TEST_CASE("long values are cut between characters", "[recipe]") {
  std::string name;
  for (int i = 0; i < 80; ++i) {
    name += "\xc3\xa9";  // two bytes
  }
  const auto found = changes(R"({"name": ")" + name + "\"}");
  REQUIRE(found.size() == 1);
  CHECK(found[0].now.size() <= 103);
  CHECK_THAT(found[0].now, contains_text("\xc3\xa9..."));
}

TEST_CASE("a run does not go on where a change is refused", "[recipe]") {
  const auto fine = changes(R"({"name": "b", "device": "cuda"})");
  CHECK_NOTHROW(refuse_changes(fine, "runs/a"));
  try {
    refuse_changes(changes(R"({"name": "b", "seed": 2})"), "runs/a/checkpoints/step-5");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "resume.recipe_changed");
    CHECK(error.exit_code() == ExitCode::kRecipe);
    CHECK_THAT(error.message(),
               contains_text("incompatible with runs/a/checkpoints/step-5:\nrefused  /seed"));
    CHECK_THAT(error.message(), !contains_text("/name"));
  }
}

TEST_CASE("every key of the recipe has a rule", "[recipe]") {
  std::vector<std::string> keys;
  collect(recipe_schema(), "", keys);
  for (const std::string& key : keys) {
    // The short forms are not in a frozen recipe, nor is the editors' schema. Fingerprints are
    // compared with the strings that they belong to.
    const bool is_short = key == "/$schema" || is_at_or_below(key, "/environment") ||
                          is_at_or_below(key, "/model") || is_at_or_below(key, "/loss");
    if (key.empty() || is_short || key == "/data" || key == "/train") {
      continue;
    }
    INFO(key);
    const bool has_rule = std::ranges::any_of(resume_rules(), [&](const ResumeRule& rule) {
      const auto wanted = *split_pointer(rule.key);
      const auto tokens = *split_pointer(key);
      return wanted.size() <= tokens.size() &&
             std::equal(wanted.begin(), wanted.end(), tokens.begin());
    });
    CHECK(has_rule);
  }
  // And every rule is about a key.
  for (const ResumeRule& rule : resume_rules()) {
    INFO(rule.key);
    CHECK(std::ranges::any_of(keys, [&](const std::string& key) { return key == rule.key; }));
  }
}

TEST_CASE("the page about changes has the rules", "[recipe][docs]") {
  std::ifstream file(source_dir() / "docs/reference/resume-changes.md");
  std::ostringstream text;
  text << file.rdbuf();
  CHECK_THAT(text.str(), contains_text("\n" + rules_table()));
}

TEST_CASE("another value of a variable is a change, though it is not shown", "[recipe]") {
  const auto with = [](const std::string& path, const std::string& value) {
    json recipe = {{"data", {{"train", {{"options", {{"path", path}}}}}}}};
    if (!value.empty()) {
      recipe["environment"] = {{"DIR", value_fingerprint(value)}};
    }
    return recipe.dump();
  };
  const std::string data = with("${ENV:DIR}/one.txt", "/data");
  CHECK(outline(data, data) == "");
  const auto found = changes(with("${ENV:DIR}/one.txt", "/other"), data);
  CHECK(outline(found) == "warns /data/train/options/path");
  CHECK(found.at(0).before == "\"${ENV:DIR}/one.txt\"");
  CHECK(found.at(0).now == "\"${ENV:DIR}/one.txt\" with another value");

  // The same value, written in another way: earlier releases froze values.
  CHECK(outline(data, with("/data/one.txt", "")) == "");
  CHECK(outline(with("/data/one.txt", ""), data) == "");
  // Two texts with variables are compared part by part.
  CHECK(outline(with("/data/${ENV:DIR}", "one.txt"), data) == "warns /data/train/options/path");
  CHECK(outline(with("/data/two.txt", ""), data) == "warns /data/train/options/path");
}

TEST_CASE("a text of many variables is matched as a whole", "[recipe]") {
  const auto with = [](const std::string& uri) {
    return json({{"sinks", {{{"type", "x"}, {"options", {{"uri", uri}}}}}},
                 {"environment",
                  {{"A", value_fingerprint("key")}, {"B", value_fingerprint("se@cret")}}}})
        .dump();
  };
  const std::string now = with("s3://${ENV:A}:${ENV:B}@b");
  CHECK(outline(now, with("s3://key:se@cret@b")) == "");
  CHECK(outline(now, with("s3://key:secret@b")) == "free /sinks/0/options/uri");
  CHECK(outline(now, with("s3://${ENV:B}:${ENV:A}@b")) == "free /sinks/0/options/uri");
}

TEST_CASE("a long value is shown around its first difference", "[recipe]") {
  const auto with_path = [](const std::string& end) {
    return R"({"data": {"train": {"options": {"note": ")" + std::string(300, 'a') + end +
           R"("}}}})";
  };
  const auto found = changes(with_path("after"), with_path("before"));
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].before, contains_text("aaabefore\"") && contains_text("..."));
  CHECK_THAT(found[0].now, contains_text("aaaafter\""));
  CHECK(found[0].before.size() < 120);
}

}  // namespace tenon
