// SPDX-License-Identifier: Apache-2.0
//
// Exports beside checkpoints, and checkpoints without some of the parameters, by the command line.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string merged(const std::string& recipe, const std::string& patch) {
  nlohmann::json result = nlohmann::json::parse(recipe);
  result.merge_patch(nlohmann::json::parse(patch));
  return result.dump();
}

constexpr char kLanguage[] = R"({"name": "lm", "threads": {"compute": 1},
    "model": {"type": "llama", "options": {"vocab_size": 16, "hidden_size": 16,
      "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
      "num_key_value_heads": 2}},
    "data": {"batch_size": 1, "train": {"type": "token_rows", "options": {"samples": 26, "length": 8}}},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
    "train": {"steps": 12, "global_batch_size": 4, "log_every": 2},
    "checkpoint": {"every_steps": 4, "keep_last": 0}})";

constexpr char kExports[] = R"({"checkpoint": {"exports": [
    {"format": "weights", "every_steps": 3, "keep_last": 2},
    {"format": "hf", "every_steps": 4, "at_end": true, "keep_last": 0}]}})";

constexpr char kTable[] = R"({"model": {"type": "lookup_net", "options": null}, "tables": {
    "*": {"optimizer": {"type": "adam", "options": {"lr": 0.05}}}}})";

// --inspect and the like, which need no plugins.
SubprocessResult look(const std::vector<std::string>& words) {
  std::vector<std::string> all = {host_program().string()};
  all.insert(all.end(), words.begin(), words.end());
  return run_subprocess(all);
}

// Runs of recipes in folders beside each other.
class Folders {
 public:
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  SubprocessResult run(const std::string& name,
                       const std::string& recipe,
                       int num_ranks = 1,
                       const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"--recipe",
                                      folder_.write(name + ".json", recipe).string(),
                                      "--run-dir",
                                      path(name).string()};
    if (num_ranks > 1) {
      words.insert(words.end(), {"--launch", std::to_string(num_ranks)});
    }
    words.insert(words.end(), more.begin(), more.end());
    return run_host(words);
  }

  nlohmann::json summary(const std::string& name) const {
    return nlohmann::json::parse(file_text(path(name) / "summary.json"));
  }

 private:
  ScratchFolder folder_;
};

// The finished bundles of a folder, without what follows the step in their names.
std::vector<std::string> checkpoints(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "COMMITTED")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> steps(const fs::path& folder) {
  std::vector<std::string> names = checkpoints(folder);
  for (std::string& name : names) {
    const size_t last = name.find("_epoch-");
    const size_t copy = name.find('_', last + 1);
    name = name.substr(0, name.find('_')) + (copy != std::string::npos ? name.substr(copy) : "");
  }
  return names;
}

fs::path checkpoint_of(const fs::path& folder, const std::string& step) {
  for (const std::string& name : checkpoints(folder)) {
    if (name.starts_with(step + "_")) {
      return folder / name;
    }
  }
  return {};
}

// By name, but for the word that they are whole.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != "COMMITTED") {
      files[entry.path().filename().string()] = file_text(entry.path());
    }
  }
  return files;
}

// What --export makes of a checkpoint, or of weights. `which`: "best" or "last".
std::string state_dict(const Folders& folders, const fs::path& from, const char* which = "best") {
  const fs::path to = folders.path("state-dict.pt");
  fs::remove(to);
  std::vector<std::string> arguments = {"--export", "torch", to.string(), "--from", from.string()};
  if (std::string_view(which) == "last") {
    arguments.insert(arguments.end(), {"--which", which});
  }
  const SubprocessResult result = run_host(arguments);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  return file_text(to);
}

}  // namespace

TEST_CASE("exports are made by schedules of their own, while the run is the same",
          "[recipes][multi-rank][.release]") {
  const Folders folders;
  const SubprocessResult plain = folders.run("plain", kLanguage);
  INFO(plain.out << plain.err);
  REQUIRE(plain.exit_code == 0);
  CHECK(folders.summary("plain")["exports"].is_null());
  struct Way {
    int num_ranks;
    const char* staging;
  };
  for (const Way& way : {Way{1, "copy"}, Way{1, "stream"}, Way{2, "copy"}}) {
    INFO(way.num_ranks << " ranks, " << way.staging);
    const std::string name = way.staging + std::to_string(way.num_ranks);
    const SubprocessResult result =
        folders.run(name,
                    merged(merged(kLanguage, kExports),
                           std::string(R"({"checkpoint": {"staging": ")") + way.staging + "\"}}"),
                    way.num_ranks);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    if (way.num_ranks == 1) {
      CHECK(folders.summary(name)["parameters_hash"] ==
            folders.summary("plain")["parameters_hash"]);
    }
    const fs::path run = folders.path(name);
    CHECK(steps(run / "exports" / "weights") ==
          std::vector<std::string>{"step-00000009", "step-00000012"});
    CHECK(steps(run / "exports" / "hf") ==
          std::vector<std::string>{"step-00000004", "step-00000008", "step-00000012"});
    CHECK(checkpoints(run / "exports" / ".hf").empty());
    CHECK(steps(run / "checkpoints").size() == 3);
    CHECK(folders.summary(name)["exports"]["committed"] == 7);
    CHECK(folders.summary(name)["exports"]["failed"] == 0);
    CHECK_THAT(result.out, contains_text("exported " + run.string() + "/exports/hf/step-00000008"));

    // An export is what --export makes of the checkpoint of its step.
    for (const std::string step : {"step-00000008", "step-00000012"}) {
      const fs::path later = folders.path(name + "-" + step);
      const fs::path checkpoint = checkpoint_of(run / "checkpoints", step);
      const SubprocessResult exported =
          run_host({"--export", "hf", later.string(), "--from", checkpoint.string()});
      INFO(exported.err);
      REQUIRE(exported.exit_code == 0);
      CHECK(contents(checkpoint_of(run / "exports" / "hf", step)) == contents(later));
    }
    const fs::path weights = checkpoint_of(run / "exports" / "weights", "step-00000012");
    CHECK(state_dict(folders, weights) ==
          state_dict(folders, checkpoint_of(run / "checkpoints", "step-00000012")));
    const SubprocessResult sound = look({"--verify", weights.string()});
    INFO(sound.err);
    CHECK(sound.exit_code == 0);
    const SubprocessResult inspected = look({"--inspect", weights.string()});
    CHECK_THAT(inspected.out,
               contains_text("kind              weights\n") &&
                   contains_text("parameters/values/model.norm.weight") &&
                   !contains_text("optimizer/"));
    CHECK(look({"--diff", weights.string(), weights.string()}).exit_code == 0);
  }
}

TEST_CASE("exports of tables have their rows, and nothing of their optimizers", "[recipes]") {
  const Folders folders;
  const SubprocessResult result =
      folders.run("run",
                  merged(small_recipe(R"({"train": {"steps": 4}, "checkpoint": {
                "exports": [{"format": "weights", "at_end": true}]}})"),
                         kTable));
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const fs::path weights =
      checkpoint_of(folders.path("run") / "exports" / "weights", "step-00000004");
  const auto tensors =
      nlohmann::json::parse(file_text(weights / "index.json"))["by_rank"][0]["tensors"];
  CHECK(tensors.contains("tables/sample_id/ids"));
  CHECK(tensors.contains("tables/sample_id/values"));
  for (const auto& [name, tensor] : tensors.items()) {
    INFO(name);
    CHECK(name.find("slots") == std::string::npos);
  }
}

TEST_CASE("a run that goes on makes the exports that it did not come to, and none twice",
          "[recipes]") {
  const Folders folders;
  const std::string recipe = merged(kLanguage, kExports);
  const fs::path hf = folders.path("run") / "exports" / "hf";
  REQUIRE(folders.run("run", recipe, 1, {"--set", "train.exit_at_step=8"}).exit_code == 75);
  REQUIRE(steps(hf) == std::vector<std::string>{"step-00000004", "step-00000008"});
  // As if it had died before the second one was whole, and after its shares were.
  const fs::path second = checkpoint_of(hf, "step-00000008");
  const auto wanted = contents(second);
  fs::copy(second, folders.path("run") / "exports" / ".hf" / second.filename());
  fs::remove(second / "COMMITTED");
  fs::rename(second, hf / (".open-" + second.filename().string()));
  const SubprocessResult result = folders.run("run", recipe);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(steps(hf) == std::vector<std::string>{"step-00000004", "step-00000008", "step-00000012"});
  CHECK(contents(second) == wanted);
  CHECK(checkpoints(folders.path("run") / "exports" / ".hf").empty());
  const auto all = checkpoints(hf);
  // A run that is done is not exported again.
  CHECK(folders.run("run", recipe).exit_code == 0);
  CHECK(checkpoints(hf) == all);
}

TEST_CASE("at its end a run exports the parameters of its best evaluation", "[recipes]") {
  const Folders folders;
  const SubprocessResult result = folders.run("run", small_recipe(R"({"train": {"steps": 6},
          "data": {"eval": {"type": "windows", "options": {"samples": 9}}},
          "optimizer": {"type": "sgd", "options": {"lr": 0.01}},
          "eval": {"every_steps": 2, "keep_best": {"metric": "eval/loss", "mode": "min"}},
          "checkpoint": {"every_steps": 2, "keep_last": 0,
                         "exports": [{"format": "weights", "every_steps": 6, "at_end": true}]}})"));
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const auto best = folders.summary("run")["best"]["step"].get<int>();
  REQUIRE(best < 6);
  const fs::path weights = folders.path("run") / "exports" / "weights";
  REQUIRE(steps(weights) == std::vector<std::string>{"step-00000006", "step-00000006_2"});
  const fs::path saved = folders.path("run") / "checkpoints";
  CHECK(state_dict(folders, weights / checkpoints(weights)[0]) ==
        state_dict(folders, checkpoint_of(saved, "step-00000006"), "last"));
  CHECK(state_dict(folders, weights / checkpoints(weights)[1]) ==
        state_dict(folders, checkpoint_of(saved, "step-0000000" + std::to_string(best))));
}

TEST_CASE("an export that cannot be made fails the run, at its end or at once", "[recipes]") {
  const Folders folders;
  const std::string recipe =
      merged(merged(kLanguage, kExports), R"({"checkpoint": {"retries": 0}})");
  for (const std::string then : {"continue", "stop"}) {
    REQUIRE(folders.run(then, recipe, 1, {"--set", "train.exit_at_step=4"}).exit_code == 75);
    fs::remove_all(folders.path(then) / "exports");
    std::ofstream(folders.path(then) / "exports") << "in the way";
    const SubprocessResult result =
        folders.run(then, recipe, 1, {"--set", "checkpoint.on_failure=" + then});
    INFO(result.out << result.err);
    const bool goes_on = then == "continue";
    CHECK(result.exit_code == 5);
    CHECK_THAT(result.err, contains_text("[storage.io]") || contains_text("[checkpoint.failed]"));
    CHECK_THAT(result.err, contains_text("the export " + folders.path(then).string()));
    CHECK(folders.summary(then)["exports"]["failed"].get<int>() >= 1);
    if (goes_on) {
      CHECK_THAT(result.err,
                 contains_text("the run ended at step 12 (") && contains_text("but the export"));
      CHECK(folders.summary(then)["steps"] == 12);
      CHECK(folders.summary(then)["checkpoints"]["failed"] == 0);
      CHECK(steps(folders.path(then) / "checkpoints").size() == 3);
    }
  }
}

TEST_CASE("an export of one format does not replace the last export of another", "[recipes]") {
  const Folders folders;
  const std::string recipe = merged(kLanguage, R"({"checkpoint": {"retries": 0, "exports": [
      {"format": "weights", "at_end": true}, {"format": "hf", "at_end": true}]}})");
  for (const std::string blocked : {"weights", "hf"}) {
    INFO(blocked);
    REQUIRE(folders.run(blocked, recipe, 1, {"--set", "train.exit_at_step=4"}).exit_code == 75);
    const fs::path exports = folders.path(blocked) / "exports";
    fs::create_directories(exports);
    fs::remove_all(exports / blocked);
    std::ofstream(exports / blocked) << "in the way";
    const SubprocessResult lost = folders.run(blocked, recipe);
    INFO(lost.out << lost.err);
    CHECK(lost.exit_code == 5);
    CHECK_THAT(lost.err, contains_text("[checkpoint.failed]") && contains_text("but the export "));
    CHECK(folders.summary(blocked)["exports"]["lost"]["step"] == 12);
    CHECK(folders.summary(blocked)["exports"]["committed"] == 1);
    CHECK(folders.summary(blocked)["checkpoints"]["lost"].is_null());
    // With the way free, the same command makes it.
    fs::remove(exports / blocked);
    const SubprocessResult made = folders.run(blocked, recipe);
    INFO(made.out << made.err);
    CHECK(made.exit_code == 0);
    CHECK(steps(exports / "weights") == std::vector<std::string>{"step-00000012"});
    CHECK(steps(exports / "hf") == std::vector<std::string>{"step-00000012"});
  }
}

TEST_CASE("what cannot be exported, or gone on from, is refused", "[recipes]") {
  const Folders folders;
  const SubprocessResult no_layout = folders.run(
      "mlp", small_recipe(R"({"checkpoint": {"exports": [{"format": "hf", "at_end": true}]}})"));
  INFO(no_layout.err);
  CHECK(no_layout.exit_code != 0);
  CHECK_THAT(no_layout.err, contains_text("[weights.no_layout]"));
  CHECK_FALSE(fs::exists(folders.path("mlp")));  // before anything was done

  REQUIRE(folders.run("lm", merged(kLanguage, kExports)).exit_code == 0);
  const fs::path weights =
      checkpoint_of(folders.path("lm") / "exports" / "weights", "step-00000012");
  const SubprocessResult resumed = folders.run("new", kLanguage, 1, {"--resume", weights.string()});
  INFO(resumed.err);
  CHECK(resumed.exit_code == 2);
  CHECK_THAT(resumed.err, contains_text("[resume.only_weights]"));
}

TEST_CASE("what a checkpoint is without stays as it is at the start of a run",
          "[recipes][multi-rank][.release]") {
  const std::string recipe = merged(kLanguage, R"({"model": {"frozen": ["model.layers.0.*"]},
      "checkpoint": {"exclude": ["model.layers.0.*"],
                     "exports": [{"format": "weights", "every_steps": 4},
                                 {"format": "hf", "at_end": true}]}})");
  const Folders folders;
  for (const int num_ranks : {1, 2}) {
    INFO(num_ranks << " ranks");
    const std::string whole = "whole-" + std::to_string(num_ranks);
    const std::string parts = "parts-" + std::to_string(num_ranks);
    REQUIRE(folders.run(whole, recipe, num_ranks).exit_code == 0);
    REQUIRE(folders.run(parts, recipe, num_ranks, {"--set", "train.exit_at_step=5"}).exit_code ==
            75);
    const fs::path checkpoint = checkpoint_of(folders.path(parts) / "checkpoints", "step-00000005");
    const SubprocessResult inspected = look({"--inspect", checkpoint.string()});
    CHECK_THAT(inspected.out, !contains_text("values/model.layers.0."));
    CHECK_THAT(inspected.out, contains_text("excluded          model.layers.0."));
    CHECK_THAT(inspected.out, contains_text("values/model.layers.1."));
    CHECK(look({"--verify", checkpoint.string()}).exit_code == 0);
    const SubprocessResult result = folders.run(parts, recipe, num_ranks);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    CHECK_THAT(result.err, contains_text(" is without 9 parameters (model.layers.0."));
    CHECK(folders.summary(parts)["parameters_hash"] == folders.summary(whole)["parameters_hash"]);
    // Weights are without them too; what other programs read is whole.
    const fs::path exports = folders.path(parts) / "exports";
    const SubprocessResult weights =
        look({"--inspect", checkpoint_of(exports / "weights", "step-00000008").string()});
    CHECK_THAT(weights.out, !contains_text("values/model.layers.0."));
    CHECK_THAT(file_text(checkpoint_of(exports / "hf", "step-00000012") / "model.safetensors"),
               contains_text("model.layers.0."));
    const SubprocessResult exported = run_host(
        {"--export", "hf", folders.path("hf-" + parts).string(), "--from", checkpoint.string()});
    CHECK(exported.exit_code != 0);
    CHECK_THAT(exported.err, contains_text("[weights.mismatch]"));
  }
}

TEST_CASE("trained parameters and tables may be left out, and begin anew with their slots",
          "[recipes][.release]") {
  const Folders folders;
  const std::string recipe =
      merged(small_recipe(R"({"train": {"steps": 8}, "optimizer": {"type": "adamw",
                "options": {"lr": 0.02}}, "checkpoint": {"every_steps": 2}})"),
             kTable);
  const SubprocessResult whole = folders.run("whole", recipe);
  INFO(whole.err);
  REQUIRE(whole.exit_code == 0);
  const std::string without = merged(recipe, R"({"checkpoint": {"exclude": ["sample_*", "*"]}})");
  REQUIRE(folders.run("run", without, 1, {"--set", "train.exit_at_step=4"}).exit_code == 75);
  const auto index = nlohmann::json::parse(file_text(
      checkpoint_of(folders.path("run") / "checkpoints", "step-00000004") / "index.json"));
  for (const auto* const entries : {&index["shared"], &index["by_rank"][0]}) {
    for (const char* const kind : {"tensors", "numbers"}) {
      for (const auto& [name, entry] : (*entries)[kind].items()) {
        INFO(name);
        CHECK_FALSE((name.starts_with("parameters/") || name.starts_with("optimizer/") ||
                     name.starts_with("tables/")));
      }
    }
  }
  CHECK(index["facts"]["left_out"]["tables"] == std::vector<std::string>{"labels", "sample_id"});
  const SubprocessResult result = folders.run("run", without);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.err, contains_text("and 2 tables (labels, sample_id)"));
  CHECK(folders.summary("run")["resumed"]["step"] == 4);
  CHECK(folders.summary("run")["parameters_hash"] != folders.summary("whole")["parameters_hash"]);
  // What a later part of the run saves does not depend on what an earlier one left out.
  REQUIRE(folders.run("back", without, 1, {"--set", "train.exit_at_step=4"}).exit_code == 75);
  REQUIRE(folders.run("back", recipe).exit_code == 0);
  const SubprocessResult same = look({"--verify", folders.path("back").string()});
  CHECK_THAT(same.out, contains_text("is sound"));
  CHECK(folders.summary("back")["parameters_hash"] == folders.summary("run")["parameters_hash"]);
}

TEST_CASE("a pattern that leaves nothing out is an error before the first step", "[recipes]") {
  const Folders folders;
  const SubprocessResult result =
      folders.run("run", merged(kLanguage, R"({"checkpoint": {"exclude": ["layers.0.*"]}})"));
  INFO(result.err);
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err,
             contains_text("[checkpoint.unmatched_exclude]") && contains_text("'layers.0.*'") &&
                 contains_text("model.embed_tokens.weight"));
  CHECK_FALSE(fs::exists(folders.path("run")));
}

}  // namespace tenon
