// SPDX-License-Identifier: Apache-2.0
//
// Runs that begin with what others have trained: all of it or parts, by other names, into other
// tables, from run folders, checkpoints, safetensors and object storage, again and again, on one
// rank and on two; and what is said where that cannot be.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/s3_server.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json patched(json recipe, const std::string& patch) {
  recipe.merge_patch(json::parse(patch));
  return recipe;
}

// Runs in one folder, by the command line alone.
class Desk {
 public:
  SubprocessResult run(const json& recipe,
                       const std::string& name,
                       int num_ranks = 1,
                       const std::vector<std::string>& more = {},
                       const SubprocessOptions& options = {}) const {
    const fs::path file = folder_.write(name + ".json", recipe.dump(2));
    return run_host(file, path(name), num_ranks, more, options);
  }

  // What it printed.
  std::string succeed(const json& recipe,
                      const std::string& name,
                      int num_ranks = 1,
                      const std::vector<std::string>& more = {}) const {
    const SubprocessResult result = run(recipe, name, num_ranks, more);
    INFO(recipe.dump(2) << "\n" << result.out << result.err);
    REQUIRE(result.exit_code == 0);
    return result.out + result.err;
  }

  // What it said.
  std::string fail(const json& recipe, const std::string& name, int num_ranks = 1) const {
    const SubprocessResult result = run(recipe, name, num_ranks);
    INFO(recipe.dump(2) << "\n" << result.out << result.err);
    REQUIRE(result.exit_code == 3);
    CHECK_FALSE(fs::exists(path(name)));
    return result.err;
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }
  const ScratchFolder& folder() const { return folder_; }
  json summary(const std::string& name) const {
    return json::parse(file_text(path(name) / "summary.json"));
  }
  std::string hash(const std::string& name) const {
    return summary(name)["parameters_hash"].get<std::string>();
  }
  std::vector<json> records(const std::string& name) const {
    return metric_records(file_text(path(name) / "metrics.jsonl"));
  }
  // The newest first.
  std::vector<fs::path> checkpoints(const std::string& name) const {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(path(name) / "checkpoints")) {
      if (entry.is_directory()) {
        paths.push_back(entry.path());
      }
    }
    std::ranges::sort(paths, std::ranges::greater());
    return paths;
  }
  // The recipe with loads from the runs that are named.
  json with_load(json recipe, const std::string& load) const {
    std::string text = load;
    const std::string mark = "$DESK";
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark)) {
      text.replace(at, mark.size(), folder_.path().string());
    }
    recipe["load"] = json::parse(text);
    return recipe;
  }

 private:
  ScratchFolder folder_;
};

// Without a schedule: what a step does depends on what was loaded and on the data alone.
json trained(const std::string& patch = "{}") {
  return patched(json::parse(small_recipe(R"({
    "train": {"steps": 6, "log_every": 1, "global_batch_size": 8},
    "data": {"batch_size": 2, "train": {"options": {"samples": 40}}},
    "optimizer": {"type": "adamw", "options": {"lr": 0.02}},
    "checkpoint": {"keep_last": 0}
  })")),
                 patch);
}

// The same, that changes nothing: it ends with what it began with.
json still(const std::string& patch = "{}") {
  return patched(trained(R"({"optimizer": {"options": {"lr": 0, "weight_decay": 0}}})"), patch);
}

constexpr char kTables[] = R"({"model": {"type": "lookup_net", "options": null},
    "tables": {"*": {"optimizer": {"type": "adam", "options": {"lr": 0.05}}}}})";

constexpr char kStillTables[] = R"({"model": {"type": "lookup_net", "options": null},
    "tables": {"*": {"optimizer": {"type": "adam", "options": {"lr": 0}}}}})";

void flip_a_byte(const fs::path& file, int64_t from_end) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(-from_end, std::ios::end);
  const char byte = static_cast<char>(stream.get() ^ 1);
  stream.seekp(-from_end, std::ios::end);
  stream.put(byte);
}

}  // namespace

TEST_CASE("a run that takes all of another is where that one stopped", "[recipes]") {
  const std::string patch = GENERATE(std::string("{}"), std::string(kTables));
  const int num_ranks = GENERATE(1, 2);
  CAPTURE(patch, num_ranks);
  const Desk desk;
  desk.succeed(patched(trained(patch), R"({"train": {"steps": 11}})"), "whole", num_ranks);
  desk.succeed(trained(patch), "first", num_ranks);
  const std::string out =
      desk.succeed(desk.with_load(patched(trained(patch), R"({"train": {"steps": 5}})"), R"([
          {"from": "$DESK/first", "parts": ["parameters", "tables", "optimizer", "data"]}])"),
                   "second",
                   num_ranks);
  CHECK(desk.hash("second") == desk.hash("whole"));
  CHECK_THAT(out, contains_text("loaded "));
  CHECK_THAT(out, contains_text("the data position; from "));
  const auto whole = desk.records("whole");
  const auto second = desk.records("second");
  REQUIRE(second.size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    INFO(whole[6 + i] << " and " << second[i]);
    CHECK(second[i]["step"] == i + 1);
    CHECK(second[i]["loss"] == whole[6 + i]["loss"]);
  }
  CHECK(desk.summary("second")["loaded"]["from"].size() == 1);
  CHECK(desk.summary("second")["resumed"].is_null());
  CHECK(desk.summary("whole")["loaded"].is_null());
}

TEST_CASE("parameters come from any number of ranks, sharded or not, in another dtype",
          "[recipes][multi-rank]") {
  const Desk desk;
  desk.succeed(trained(), "one");
  desk.succeed(trained(R"({"parallel": {"shard": 2}})"), "two", 2);
  for (const std::string from : {"one", "two"}) {
    const std::string load = R"([{"from": "$DESK/)" + from + R"("}])";
    CAPTURE(from);
    desk.succeed(desk.with_load(still(), load), from + "-1");
    CHECK(desk.hash(from + "-1") == desk.hash(from));
    desk.succeed(desk.with_load(still(R"({"parallel": {"shard": 2}})"), load), from + "-2", 2);
    CHECK(desk.hash(from + "-2") == desk.hash(from));
    desk.succeed(desk.with_load(still(R"({"parallel": {"shard": 1, "replicate": 2}})"), load),
                 from + "-3",
                 2);
    CHECK(desk.hash(from + "-3") == desk.hash(from));
  }
  // As fp64 and back: nothing is lost.
  desk.succeed(
      desk.with_load(still(R"({"train": {"precision": "fp64"}})"), R"([{"from": "$DESK/one"}])"),
      "wide");
  desk.succeed(desk.with_load(still(), R"([{"from": "$DESK/wide"}])"), "back");
  CHECK(desk.hash("back") == desk.hash("one"));
}

TEST_CASE("rows of tables come from another run, into as many ranks as there are",
          "[recipes][multi-rank][.release]") {
  const Desk desk;
  desk.succeed(trained(kTables), "yesterday", 2);
  const auto rows_of = [&](const std::string& name) {
    const json last = desk.records(name).back();
    return std::pair(last["tables/sample_id/rows"], last["tables/labels/rows"]);
  };
  const std::string yesterday = R"([{"from": "$DESK/yesterday", "parts": ["tables"]}])";
  // Read, and not trained: what is looked up is what was loaded, on any number of ranks.
  const json read = patched(patched(still(kStillTables), R"({"train": {"steps": 1}})"),
                            R"({"optimizer": {"options": {"lr": 0.5}}})");
  const std::string out = desk.succeed(desk.with_load(read, yesterday), "one");
  CHECK_THAT(out, contains_text("loaded 2 tables ("));
  desk.succeed(desk.with_load(read, yesterday), "two", 2);
  desk.succeed(read, "without");
  CHECK(rows_of("one") == rows_of("yesterday"));
  CHECK(rows_of("two") == rows_of("yesterday"));
  CHECK(rows_of("without") != rows_of("yesterday"));
  const double loss = desk.records("one")[0]["loss"].get<double>();
  CHECK(desk.records("two")[0]["loss"].get<double>() == Approx(loss).epsilon(1e-6));
  CHECK(desk.records("without")[0]["loss"].get<double>() != Approx(loss).epsilon(1e-3));

  SECTION("a table alone, by another name") {
    const std::string told = desk.succeed(
        desk.with_load(read,
                       R"([{"from": "$DESK/yesterday", "parts": ["tables"], "match": ["sample_id"],
                                  "rename": [{"from": "labels", "to": "sample_id"},
                                             {"from": "sample_id", "to": "old"}]}])"),
        "renamed");
    CHECK(rows_of("renamed").second == rows_of("without").second);
    CHECK_THAT(told, contains_text("loaded 1 table (3 rows)"));
  }
  SECTION("another optimizer keeps something else") {
    const json other = patched(
        read, R"({"tables": {"*": {"optimizer": {"type": "adagrad", "options": {"lr": 0.1}}}}})");
    const std::string both = R"(, "parts": ["tables", "optimizer"]}])";
    CHECK_THAT(desk.fail(desk.with_load(other, R"([{"from": "$DESK/yesterday")" + both), "slots"),
               contains_text("[load.mismatch]"));
  }
  SECTION("optimizer state comes only with its parameters") {
    const std::string told = desk.succeed(
        desk.with_load(read, R"([{"from": "$DESK/yesterday", "parts": ["tables", "optimizer"]}])"),
        "rows");
    CHECK_THAT(told,
               contains_text("unchanged: the optimizer state of parameters, which are not loaded"));
    CHECK_THAT(
        desk.fail(desk.with_load(read, R"([{"from": "$DESK/yesterday", "parts": ["optimizer"]}])"),
                  "moments"),
        contains_text("/parts has \"optimizer\" without \"parameters\""));
  }
}

TEST_CASE("tables of another dim are refused, and new ones begin anew", "[recipes]") {
  const Desk desk;
  const auto recipe = [](int dim) {
    return json::parse(R"({"name": "tables", "threads": {"compute": 1},
      "model": {"type": "table_net", "options": {"dim": )" +
                       std::to_string(dim) + R"(}},
      "data": {"batch_size": 4, "train": {"type": "criteo_like", "options": {"samples": 32}}},
      "loss": {"type": "bce_with_logits", "inputs": {"labels": "label"}},
      "tables": {"*": {"optimizer": {"type": "adagrad", "options": {"lr": 0.05}}}},
      "optimizer": {"type": "sgd", "options": {"lr": 0.1}},
      "train": {"steps": 3, "log_every": 1}, "checkpoint": {}})");
  };
  desk.succeed(recipe(4), "narrow");
  const std::string said = desk.fail(
      desk.with_load(recipe(8), R"([{"from": "$DESK/narrow", "parts": ["tables"]}])"), "wide");
  CHECK_THAT(said, contains_text("[load.mismatch]"));
  CHECK_THAT(said, contains_text("table 'first' has rows of 4, and here of 8"));
  const std::string out =
      desk.succeed(desk.with_load(recipe(4), R"([{"from": "$DESK/narrow", "parts": ["tables"],
          "rename": [{"from": "first", "to": "elsewhere"}], "exclude": ["elsewhere"]}])"),
                   "again");
  CHECK_THAT(out, contains_text("loaded 2 tables ("));
  CHECK_THAT(out, contains_text("; unchanged: table first"));
}

TEST_CASE("a head that is new is left out, and all that does not fit is told", "[recipes]") {
  const Desk desk;
  desk.succeed(trained(R"({"model": {"options": {"out_features": 5}},
                           "data": {"train": {"options": {"num_classes": 5}}}})"),
               "five");
  const std::string all = R"([{"from": "$DESK/five"}])";
  const std::string said = desk.fail(desk.with_load(trained(), all), "refused");
  CHECK_THAT(said, contains_text("[load.mismatch]"));
  CHECK_THAT(said, contains_text("is [5, 8], expected [3, 8]"));
  CHECK_THAT(said, contains_text("is [5], expected [3]"));
  CHECK_THAT(said, contains_text("parameters that are not loaded keep their initial values"));
  CHECK_THAT(desk.fail(desk.with_load(trained(), all), "refused-2", 2),
             contains_text("[load.mismatch]"));

  const std::string out = desk.succeed(
      desk.with_load(trained(), R"([{"from": "$DESK/five", "strict": false}])"), "fitting");
  CHECK_THAT(out, contains_text("loaded 2 parameters; does not fit: "));

  const json narrow = json::parse(file_text(desk.checkpoints("five")[0] / "index.json"));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : narrow["shared"]["tensors"].items()) {
    if (name.starts_with("parameters/values/")) {
      names.push_back(name.substr(18));
    }
  }
  REQUIRE(names.size() == 4);
  const std::string head = names[2].substr(0, names[2].rfind('.')) + ".*";
  const std::string without =
      desk.succeed(desk.with_load(trained(),
                                  R"([{"from": "$DESK/five", "exclude": [")" + head +
                                      R"("], "parts": ["parameters", "optimizer"]}])"),
                   "head");
  CHECK_THAT(without,
             contains_text("loaded 2 parameters, the optimizer state of 2 parameters; from"));
  CHECK(desk.hash("head") != desk.hash("fitting"));  // which began without moments
  // What is excluded begins as it does in a run without a load.
  desk.succeed(still(), "fresh");
  const std::string body = R"({"from": "$DESK/five", "exclude": [")" + head + R"("]})";
  desk.succeed(desk.with_load(still(), "[" + body + "]"), "excluded");
  desk.succeed(
      desk.with_load(still(),
                     "[" + body + R"(, {"from": "$DESK/fresh", "match": [")" + head + R"("]}])"),
      "loaded");
  CHECK(desk.hash("excluded") == desk.hash("loaded"));
  CHECK(desk.hash("excluded") != desk.hash("fresh"));

  CHECK_THAT(
      desk.fail(desk.with_load(trained(), R"([{"from": "$DESK/five", "exclude": ["haed.*"]}])"),
                "misspelt"),
      contains_text("/load/0/exclude/0: 'haed.*'"));
  CHECK_THAT(
      desk.fail(desk.with_load(trained(), R"([{"from": "$DESK/five", "parts": ["tables"]}])"),
                "nothing"),
      contains_text("nothing would be loaded"));
}

TEST_CASE("the first source that is there and sound is taken", "[recipes]") {
  const Desk desk;
  desk.succeed(trained(), "sound");
  desk.succeed(trained(R"({"seed": 5, "checkpoint": {"every_steps": 2}})"), "damaged");
  const std::vector<fs::path> checkpoints = desk.checkpoints("damaged");
  REQUIRE(checkpoints.size() == 3);
  for (const fs::path& checkpoint : checkpoints) {
    flip_a_byte(checkpoint / "rank-0-of-1.safetensors", 900);  // in a tensor
  }
  const std::string bank =
      R"([{"from": ["$DESK/gone", "$DESK/damaged", "$DESK/sound"], "parts": ["parameters", "optimizer"]}])";
  for (const int num_ranks : {1, 2}) {
    const std::string name = "from-" + std::to_string(num_ranks);
    const std::string out = desk.succeed(desk.with_load(still(), bank), name, num_ranks);
    CHECK(desk.hash(name) == desk.hash("sound"));
    CHECK_THAT(out, contains_text("gone does not exist"));
    CHECK_THAT(out, contains_text("is corrupt"));
  }
  // A damaged checkpoint is passed over for the one before it.
  flip_a_byte(checkpoints[1] / "rank-0-of-1.safetensors", 900);
  desk.succeed(desk.with_load(still(), bank), "before");
  desk.succeed(desk.with_load(still(), R"([{"from": ")" + checkpoints[1].string() + R"("}])"),
               "named");
  CHECK(desk.hash("before") == desk.hash("named"));
  flip_a_byte(checkpoints[1] / "rank-0-of-1.safetensors", 900);

  const std::string said =
      desk.fail(desk.with_load(still(), R"([{"from": ["$DESK/gone", "$DESK/damaged"],
                                   "parts": ["parameters", "optimizer"]}])"),
                "none");
  CHECK_THAT(said, contains_text("[load.no_source] /load/0: no source can be loaded:"));
  CHECK_THAT(said, contains_text("gone does not exist"));
  CHECK_THAT(said, contains_text("is corrupt: entry '"));
  CHECK_THAT(desk.fail(desk.with_load(still(), R"([{"from": "$DESK/gone"}])"), "none-2", 2),
             contains_text("[load.no_source]"));
}

TEST_CASE("loads are made one after the other, and what a run goes on from comes before them",
          "[recipes]") {
  const Desk desk;
  desk.succeed(trained(), "a");
  desk.succeed(trained(R"({"seed": 5})"), "b");
  desk.succeed(desk.with_load(still(), R"([{"from": "$DESK/a"}, {"from": "$DESK/b"}])"), "both");
  CHECK(desk.hash("both") == desk.hash("b"));

  const json recipe = desk.with_load(trained(), R"([{"from": "$DESK/a"}])");
  desk.succeed(recipe, "whole");
  const SubprocessResult cut = desk.run(recipe, "parts", 1, {"--set", "train.exit_at_step=3"});
  REQUIRE(cut.exit_code == 75);
  fs::remove_all(desk.path("a"));  // of no use any more
  const std::string out = desk.succeed(recipe, "parts");
  CHECK_THAT(out, contains_text("resuming: /load is skipped"));
  CHECK(desk.hash("parts") == desk.hash("whole"));
}

TEST_CASE("what is loaded and not saved is loaded again where the run goes on",
          "[recipes][multi-rank][.release]") {
  const int num_ranks = GENERATE(1, 2);
  CAPTURE(num_ranks);
  const Desk desk;
  const std::string frozen = R"({"model": {"frozen": ["mlp.0.*"]},
                                 "checkpoint": {"exclude": ["mlp.0.*"]}})";
  desk.succeed(trained(), "a");
  const json recipe =
      desk.with_load(patched(trained(R"({"seed": 5})"), frozen), R"([{"from": "$DESK/a"}])");
  desk.succeed(recipe, "whole", num_ranks);
  const SubprocessResult cut =
      desk.run(recipe, "parts", num_ranks, {"--set", "train.exit_at_step=3"});
  REQUIRE(cut.exit_code == 75);
  const std::string out = desk.succeed(recipe, "parts", num_ranks);
  CHECK_THAT(out, contains_text("loaded ") && contains_text("resumed from "));
  CHECK(desk.hash("parts") == desk.hash("whole"));
  CHECK(desk.records("parts") == desk.records("whole"));
  // Without its source the run would be another one.
  const SubprocessResult again =
      desk.run(recipe, "lost", num_ranks, {"--set", "train.exit_at_step=3"});
  REQUIRE(again.exit_code == 75);
  fs::remove_all(desk.path("a"));
  const SubprocessResult lost = desk.run(recipe, "lost", num_ranks);
  CHECK(lost.exit_code != 0);
  CHECK_THAT(lost.err, contains_text("[load.no_source]"));
}

TEST_CASE("a load is repeated before the step, window or epoch that follows",
          "[recipes][.release]") {
  const Desk desk;
  desk.succeed(trained(), "bank");
  // The same batch in each step, by an optimizer that keeps nothing: every second step is the same.
  const json recipe = desk.with_load(
      trained(R"({"optimizer": {"type": "sgd", "options": {"lr": 0.3, "weight_decay": null}},
                  "train": {"overfit_batch": true, "steps": 6}})"),
      R"([{"from": "$DESK/bank", "every_steps": 2}])");
  const std::string out = desk.succeed(recipe, "steps");
  CHECK_THAT(out, contains_text("after step 2; from "));
  const auto records = desk.records("steps");
  REQUIRE(records.size() == 6);
  CHECK(records[1]["loss"] != records[0]["loss"]);
  for (const size_t i : {2, 4}) {
    CHECK(records[i]["loss"] == records[0]["loss"]);
    CHECK(records[i + 1]["loss"] == records[1]["loss"]);
  }
  CHECK(desk.summary("steps")["loaded"]["reloads"] == 2);

  const std::string windows = R"({"data": {"train": {"options": {"samples": null, "windows":
      [{"size": 16}, {"size": 16}, {"size": 16}]}}},
      "train": {"steps": null, "epochs": 2}})";
  for (const std::string every : {"every_windows", "every_epochs", "every_steps"}) {
    CAPTURE(every);
    const json repeated = desk.with_load(
        trained(windows),
        R"([{"from": "$DESK/bank", ")" + every + R"(": 1, "parts": ["parameters", "optimizer"]}])");
    desk.succeed(repeated, "whole-" + every);
    const int wanted = every == "every_windows" ? 5 : every == "every_epochs" ? 1 : 11;
    CHECK(desk.summary("whole-" + every)["loaded"]["reloads"] == wanted);
    // Stopped anywhere, it loads again where it would have.
    for (const int stop : {3, 4, 6, 7}) {
      const std::string name = every + std::to_string(stop);
      REQUIRE(desk.run(repeated, name, 1, {"--set", "train.exit_at_step=" + std::to_string(stop)})
                  .exit_code == 75);
      desk.succeed(repeated, name);
      CHECK(desk.hash(name) == desk.hash("whole-" + every));
      CHECK(desk.records(name) == desk.records("whole-" + every));
    }
  }
}

TEST_CASE("a reload that finds nothing is left out with a warning", "[recipes]") {
  const Desk desk;
  desk.succeed(trained(), "bank");
  const json recipe = desk.with_load(trained(), R"([{"from": "$DESK/bank", "every_steps": 4}])");
  REQUIRE(desk.run(recipe, "parts", 1, {"--set", "train.exit_at_step=3"}).exit_code == 75);
  fs::remove_all(desk.path("bank"));
  const std::string out = desk.succeed(recipe, "parts");
  CHECK_THAT(out, contains_text("after step 4 nothing is reloaded: /load/0: no source"));
  CHECK(desk.summary("parts")["loaded"].is_null());
}

TEST_CASE("a file of safetensors is read by the names that its rules give", "[recipes][.release]") {
  const Desk desk;
  desk.succeed(trained(), "a");
  const fs::path file = desk.folder().path() / "weights.safetensors";
  fs::copy_file(desk.checkpoints("a")[0] / "rank-0-of-1.safetensors", file);
  const std::string load = R"([{"from": "$DESK/weights.safetensors", "strict": false,
      "rename": [{"from": "parameters/values/*", "to": "*"}]}])";
  for (const int num_ranks : {1, 2}) {
    const std::string name = "b" + std::to_string(num_ranks);
    const std::string out = desk.succeed(desk.with_load(still(), load), name, num_ranks);
    CHECK(desk.hash(name) == desk.hash("a"));
    CHECK_THAT(out, contains_text("loaded 4 parameters; skipped: "));
  }
  CHECK_THAT(desk.fail(desk.with_load(still(), R"([{"from": "$DESK/weights.safetensors",
                                                    "parts": ["parameters", "data"]}])"),
                       "data"),
             contains_text("it has no data position"));
  fs::resize_file(file, 200);
  CHECK_THAT(desk.fail(desk.with_load(still(), load), "cut"), contains_text("[load.no_source]"));
}

TEST_CASE("a model of a Hugging Face folder is fine-tuned with a new head", "[recipes][.release]") {
  const int num_ranks = GENERATE(1, 2);
  CAPTURE(num_ranks);
  const Desk desk;
  const fs::path golden = source_dir() / "tests/parity/hf_sharded";
  const auto recipe = [](const std::string& options) {
    return json::parse(R"({"name": "lm", "threads": {"compute": 1},
      "model": {"type": "llama", "options": {"vocab_size": 64, "hidden_size": 16,
        "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
        "rope_theta": 500.0, )" +
                       options + R"(}},
      "data": {"batch_size": 2,
               "train": {"type": "token_rows", "options": {"samples": 26, "length": 8}}},
      "loss": {"type": "cross_entropy"}, "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
      "train": {"steps": 2, "log_every": 1}, "checkpoint": {}})");
  };
  const json model = recipe(R"("tie_word_embeddings": false)");
  const std::string from = R"([{"from": ")" + golden.string() + "\"";
  const std::vector<std::string> sharded = {"--set", "parallel.shard=" + std::to_string(num_ranks)};

  // All of it is what --import makes of it.
  desk.succeed(desk.with_load(model, from + "}]"), "loaded", num_ranks, sharded);
  desk.succeed(
      model,
      "imported",
      num_ranks,
      {"--import", "hf", golden.string(), "--set", "parallel.shard=" + std::to_string(num_ranks)});
  desk.succeed(model, "imported", num_ranks, sharded);
  CHECK(desk.hash("loaded") == desk.hash("imported"));

  const std::string out = desk.succeed(
      desk.with_load(model, from + R"(, "exclude": ["lm_head.*"]}])"), "head", num_ranks, sharded);
  CHECK_THAT(out, contains_text("parameters; from " + golden.string()));
  CHECK(desk.hash("head") != desk.hash("loaded"));

  // Its description differs: refused where all is taken, and told where a part is.
  const json tied = recipe(R"("tie_word_embeddings": true)");
  const std::string said = desk.fail(desk.with_load(tied, from + "}]"), "tied", num_ranks);
  CHECK_THAT(said, contains_text("[load.mismatch]"));
  CHECK_THAT(said, contains_text("tie_word_embeddings"));
  const std::string part = desk.succeed(
      desk.with_load(tied, from + R"(, "match": ["model.layers.*"], "exclude": ["*norm*"]}])"),
      "part",
      num_ranks);
  CHECK_THAT(part, contains_text("does not fit the model; loading the parts that fit:"));
  if (num_ranks > 1) {
    return;
  }
  const fs::path bare = desk.folder().path() / "no-config";
  fs::copy(golden, bare);
  fs::remove(bare / "config.json");
  const std::string from_bare = R"([{"from": ")" + bare.string() + "\"";
  CHECK_THAT(desk.fail(desk.with_load(model, from_bare + "}]"), "bare"),
             contains_text("[load.mismatch]") && contains_text("it has no config.json"));
  desk.succeed(desk.with_load(model, from_bare + R"(, "may_differ": ["config.json"]}])"), "anyway");
  CHECK(desk.hash("anyway") == desk.hash("loaded"));
}

TEST_CASE("what a storage of a plugin keeps is loaded from there", "[recipes][.release]") {
  if (!S3Server::is_there()) {
    TENON_SKIP("there is no server of S3; `./dev deps --peers` brings one");
  }
  const Desk desk;
  const ScratchFolder empty;
  const S3Server server(empty.path(), "runs");
  const std::string storage =
      R"({"type": "s3", "options": {"uri": "s3://runs/mine)" + server.uri_options() + R"("}})";
  SubprocessOptions options;
  for (const auto& [name, value] : S3Server::environment()) {
    options.environment.emplace(name, value);
  }
  const auto run = [&](const json& recipe, const std::string& name, int num_ranks = 1) {
    const SubprocessResult result = desk.run(recipe, name, num_ranks, {}, options);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    return result.out + result.err;
  };
  run(trained(R"({"checkpoint": {"every_steps": 2, "storage": )" + storage + "}}"), "first");
  const auto load = [&](const std::string& path) {
    return R"([{"from": ["$DESK/gone", {"path": ")" + path + R"(", "storage": )" + storage + "}]}]";
  };
  run(desk.with_load(still(), load("first")), "newest");
  CHECK(desk.hash("newest") == desk.hash("first"));
  run(desk.with_load(still(), load("first")), "newest-2", 2);
  CHECK(desk.hash("newest-2") == desk.hash("first"));
  const std::string out =
      run(desk.with_load(still(), load("first/checkpoints/step-00000004_epoch-0")), "named");
  CHECK_THAT(out, contains_text("step-00000004"));
  CHECK(desk.hash("named") != desk.hash("first"));
  const SubprocessResult none =
      desk.run(desk.with_load(still(), load("second")), "none", 1, {}, options);
  CHECK(none.exit_code == 3);
  CHECK_THAT(none.err, contains_text("no finished checkpoint is named second"));
}

}  // namespace tenon
