// SPDX-License-Identifier: Apache-2.0
//
// A run that is stopped anywhere and gone on with from its state in memory is the run that never
// stopped: every later state, the parameters, figures, events and order of data are the same to the
// bit. tests/recipes/state_host.cpp makes the runs.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

class StateRuns {
 public:
  StateRuns(const std::string& recipe, const std::string& starts, uint32_t num_ranks = 1) {
    nlohmann::json with_trace = nlohmann::json::parse(recipe);
    nlohmann::json hooks = with_trace.value("hooks", nlohmann::json::array());
    hooks.push_back({{"type", "event_trace"}});
    with_trace["hooks"] = hooks;
    const auto file = folder_.write("recipe.json", with_trace.dump());
    std::string ports;
    std::set<uint16_t> taken;
    while (num_ranks > 1 && taken.size() < 16) {
      if (const uint16_t port = free_loopback_port(); taken.insert(port).second) {
        ports += (ports.empty() ? "" : ",") + std::to_string(port);
      }
    }
    std::vector<std::string> words = {"timeout",
                                      "--signal=KILL",
                                      "280",
                                      (build_dir() / "tests/state_host").string(),
                                      file.string(),
                                      plugin_dir().string(),
                                      test_plugin_dir().string(),
                                      folder_.path().string(),
                                      starts};
    if (num_ranks > 1) {
      words.push_back(ports);
    }
    results_.resize(num_ranks);
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < num_ranks; ++rank) {
      threads.emplace_back([&, rank] {
        SubprocessOptions options;
        if (num_ranks > 1) {
          options.environment = {{"RANK", std::to_string(rank)},
                                 {"WORLD_SIZE", std::to_string(num_ranks)},
                                 {"LOCAL_RANK", std::to_string(rank)},
                                 {"LOCAL_WORLD_SIZE", std::to_string(num_ranks)},
                                 {"MASTER_ADDR", "127.0.0.1"},
                                 {"MASTER_PORT", ports.substr(0, ports.find(','))}};
        }
        results_[rank] = run_subprocess(words, options);
      });
    }
  }

  // Holds every run that was gone on with against the one that never stopped.
  void check(const std::string& plain_recipe = "") const {
    for (const SubprocessResult& result : results_) {
      INFO(result.out << result.err);
      REQUIRE(result.exit_code == 0);
    }
    for (size_t rank = 0; rank < results_.size(); ++rank) {
      const auto found = found_by(rank);
      REQUIRE(found["code"] == 0);
      REQUIRE(!found["starts"].empty());
      for (const auto& start : found["starts"]) {
        INFO("rank " << rank << " from rest " << start["rest"] << ", at the end of "
                     << start["point"] << ", step " << start["step"]);
        CHECK(start["differing"] == nlohmann::json::array());
        CHECK(start["rests"] == found["rests"]);
        CHECK(start["hash"] == found["hash"]);
        CHECK(start["code"] == 0);
        const auto reason = found["reason"].get<std::string>();
        const auto again = start["reason"].get<std::string>();  // complete if nothing was left
        CHECK((again == reason || (again.starts_with("already complete at step ") &&
                                   again.ends_with("(" + reason + ")"))));
        CHECK(start["has_same_figures"] == true);
        if (rank == 0) {
          check_files(start);
        }
      }
    }
    if (!plain_recipe.empty()) {  // to take a state changes nothing
      const HostRun plain(plain_recipe);
      CHECK(plain.summary()["parameters_hash"] == found_by(0)["hash"]);
    }
  }

  nlohmann::json found_by(size_t rank) const {
    return nlohmann::json::parse(text("found-" + std::to_string(rank) + ".json"));
  }

 private:
  std::string text(const std::string& name) const { return file_text(folder_.path() / name); }

  // Records and events: what comes after the start is what came after it in the first run.
  void check_files(const nlohmann::json& start) const {
    const std::string folder = start["folder"];
    const auto step_at_start = start["step"].get<uint64_t>();
    const auto whole = records_of(folder_.path() / "run-0");
    const auto rest = records_of(folder_.path() / folder);
    REQUIRE(rest.size() <= whole.size());
    CHECK(std::equal(rest.rbegin(), rest.rend(), whole.rbegin()));
    for (size_t i = 0; i + rest.size() < whole.size(); ++i) {
      CHECK(whole[i]["step"] <= step_at_start);
    }

    const auto all = file_lines(folder_.path() / "run-0/events.jsonl");
    const auto later = file_lines(folder_.path() / folder / "events.jsonl");
    const auto [end_of_all, end_of_later] =
        std::mismatch(all.rbegin(), all.rend(), later.rbegin(), later.rend());
    const auto num_same = static_cast<size_t>(end_of_all - all.rbegin());
    std::map<std::string, int> before;
    for (size_t i = 0; i + num_same < later.size(); ++i) {
      ++before[nlohmann::json::parse(later[i])["event"]];
    }
    CHECK(before["after_load"] == 1);
    for (const auto& [event, times] : before) {
      INFO(event);
      CHECK(times == 1);
      const std::set<std::string> kBegin = {"before_init",
                                            "after_init",
                                            "start",
                                            "after_load",
                                            "window_mode",
                                            "before_epoch",
                                            "before_window"};
      CHECK(kBegin.contains(event));
    }
    for (size_t i = 0; i + num_same < all.size(); ++i) {
      CHECK(nlohmann::json::parse(all[i])["step"] <= step_at_start);
    }
  }

  ScratchFolder folder_;
  std::vector<SubprocessResult> results_;
};

// Whatever keeps a state: metrics of all periods, a schedule, hooks, clipping, evaluations.
std::string stateful_recipe(const std::string& patch = "{}") {
  return patched(small_recipe(R"({
    "train": {"steps": null, "epochs": 2, "log_every": 3, "clip_grad_norm": 1.0, "total_steps": 40},
    "optimizer": {"type": "adamw", "options": {"lr": 0.02}},
    "lr_scheduler": {"type": "cosine", "options": {"warmup_steps": 3}},
    "data": {"eval": {"type": "windows", "options": {"samples": 9}}},
    "metrics": [{"type": "accuracy", "options": {"train": "window"}},
                {"type": "four_states", "options": {"train": true}}],
    "eval": {"every_steps": 4, "every_epochs": 1, "keep_best": {"metric": "eval/loss", "mode": "max"}},
    "hooks": [{"type": "early_stop", "options": {"patience": 50}},
              {"type": "request_at", "options": {"requests": [
                {"event": "after_step", "step": 3, "request": "evaluate"},
                {"event": "after_step", "step": 5, "request": "skip_update"}]}}]
  })"),
                 patch);
}

constexpr char kWindows[] = R"({"data": {"train": {"options": {"windows": [
  {"label": "a", "size": 13}, {"label": "gone", "size": 4, "skip": true},
  {"label": "none", "size": 0}, {"label": "b", "size": 10}]}}},
  "eval": {"next_window": true, "every_windows": 1}})";

constexpr char kStream[] = R"({"data": {"train": {"type": "counter_stream",
  "options": {"shard_sizes": [5, 9, 6], "samples": null}}}})";

constexpr char kWindowStream[] = R"({"data": {"train": {"type": "counter_stream",
  "options": {"shard_sizes": [5, 9, 6], "windows": 2, "samples": null}}},
  "eval": {"next_window": true}})";

std::string language_recipe(const std::string& patch) {
  return patched(small_language_recipe(R"({
    "data": {"batch_size": 2, "loader_threads": 2},
    "train": {"steps": null, "epochs": 2, "global_batch_size": null, "gradient_accumulation": 3,
              "recompute": "blocks"}})"),
                 patch);
}

std::string table_recipe(const std::string& patch) {
  return patched(stateful_recipe(kRowsOfTables), patch);
}

}  // namespace

TEST_CASE("a run goes on from its state in memory as if it had never stopped", "[recipes]") {
  for (const char* const data : {"{}", kWindows, kStream, kWindowStream}) {
    INFO(data);
    const std::string recipe = stateful_recipe(data);
    StateRuns(recipe, "all").check(recipe);
  }
}

TEST_CASE("windows that are cut, and windows of evaluation, are gone on with",
          "[recipes][.release]") {
  for (const char* const when : {"before", "after"}) {
    INFO(when);
    StateRuns(stateful_recipe(patched(kWindows,
                                      std::string(R"({"train": {"steps_per_window": 2},
      "eval": {"every_windows": 0, "with_window": ")") +
                                          when + R"("}, "data": {"eval": {"options": {"windows": [
        {"label": "x", "size": 5}, {"label": "y", "size": 3}, {"label": "z", "size": 6}]}}}})")),
              "all")
        .check();
  }
}

TEST_CASE("a language model goes on from its state", "[recipes][.release]") {
  for (const char* const precision : {"fp32", "fp64", "bf16_autocast", "bf16_params", "bf16"}) {
    INFO(precision);
    StateRuns(language_recipe(R"({"train": {"precision": ")" + std::string(precision) + "\"}}"),
              "0,3,4,6")
        .check();
  }
}

TEST_CASE("state buffers, repeated batches and several optimizers are gone on with",
          "[recipes][.release]") {
  StateRuns(stateful_recipe(R"({"model": {"type": "batch_norm_net", "options": null},
                            "loss": {"inputs": {"logits": "main.y"}},
                            "metrics": [{"type": "accuracy", "inputs": {"logits": "main.y"}}],
                            "train": {"overfit_batch": true, "gradient_accumulation": 2}})"),
            "0,2,5")
      .check();
  for (const char* const type : {"sgd", "adam", "adagrad"}) {
    INFO(type);
    StateRuns(stateful_recipe(R"({"optimizer": {"type": ")" + std::string(type) +
                              R"(", "options": {"lr": 0.01}, "groups": [
                {"match": "*bias*", "type": "adamw", "lr": 0.003}]}})"),
              "1,4,7")
        .check();
  }
}

TEST_CASE("rows of tables are gone on with, evicted ones and best ones too",
          "[recipes][.release]") {
  for (const char* const data : {kWindows, kStream}) {
    INFO(data);
    const std::string recipe = table_recipe(data);
    StateRuns(recipe, "all").check(recipe);
  }
  StateRuns(table_recipe(R"({"train": {"gradient_accumulation": 2}, "tables": {
    "*": {"optimizer": {"type": "adagrad", "options": {"lr": 0.1}}},
    "sample_id": {"admit": {"count": 2}, "dtype": "bf16"}}})"),
            "1,3,5")
      .check();
}

TEST_CASE("ranks go on from their states", "[recipes][multi-rank][.release]") {
  for (const char* const parallel : {R"({"parallel": {"shard": 2}})",
                                     R"({"parallel": {"replicate": 2, "shard": 1}})",
                                     R"({"parallel": {"shard": 2, "stage": 1}})"}) {
    INFO(parallel);
    StateRuns(stateful_recipe(patched(kWindows, parallel)), "0,2,5,6", 2).check();
  }
  StateRuns(stateful_recipe(kWindowStream), "0,1,4,6", 2).check();
  StateRuns(language_recipe("{}"), "0,3,4", 2).check();
}

TEST_CASE("a state that does not fit the run is refused, naming what differs", "[recipes]") {
  const StateRuns runs(stateful_recipe(), "foreign");
  const auto found = runs.found_by(0);
  CHECK(found["newer"]["error_id"] == "state.bad_version");
  CHECK_THAT(found["newer"]["reason"].get<std::string>(), contains_text("has version 99"));
  CHECK(found["larger"]["error_id"] == "state.wrong_shape");
  CHECK_THAT(found["larger"]["reason"].get<std::string>(),
             contains_text("entry 'parameters/values/") && contains_text("is [3, 3] of Float"));
  CHECK(found["without_hooks"]["error_id"] == "state.missing_entry");
  CHECK_THAT(found["without_hooks"]["reason"].get<std::string>(),
             contains_text("hook \"early_stop\"") && contains_text("components/hooks/0"));
}

}  // namespace tenon
