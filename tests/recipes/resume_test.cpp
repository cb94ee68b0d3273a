// SPDX-License-Identifier: Apache-2.0
//
// A run that is stopped at any step and started again with the same command is the run that never
// stopped: parameters, records and events, on one rank and on two, and from one to the other.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

using Lines = std::vector<std::string>;

// Runs of one recipe, by the command line alone, that leave a trace of events and of data.
class Runs {
 public:
  explicit Runs(const std::string& recipe, const std::string& id_field = "sample_id") {
    nlohmann::json traced = nlohmann::json::parse(recipe);
    traced["hooks"] = {{{"type", "event_trace"}},
                       {{"type", "data_trace"}, {"options", {{"field", id_field}}}}};
    file_ = folder_.write("recipe.json", traced.dump()).string();
  }

  // In the folder `name`, as the last `run` there left it.
  SubprocessResult run(const std::string& name,
                       int num_ranks = 1,
                       const std::vector<std::string>& more = {}) const {
    return run_host(file_, path(name), num_ranks, more);
  }

  // To the end.
  void run_whole(const std::string& name, int num_ranks = 1) const {
    const SubprocessResult result = run(name, num_ranks);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
  }

  void stop_after(const std::string& name, int step, int num_ranks = 1) const {
    const SubprocessResult result =
        run(name, num_ranks, {"--set", "train.exit_at_step=" + std::to_string(step)});
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 75);
  }

  // Stops after each of `steps` and goes on, with so many ranks each time, to the end; the last
  // number of ranks is the end's.
  void run_in_parts(const std::string& name,
                    const std::vector<int>& steps,
                    const std::vector<int>& num_ranks) const {
    for (size_t i = 0; i < steps.size(); ++i) {
      stop_after(name, steps[i], num_ranks[i]);
    }
    run_whole(name, num_ranks.back());
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }
  nlohmann::json summary(const std::string& name) const {
    return nlohmann::json::parse(file_text(path(name) / "summary.json"));
  }
  std::vector<nlohmann::json> records(const std::string& name) const {
    return records_of(path(name));
  }
  std::vector<std::string> checkpoints(const std::string& name) const {
    std::vector<std::string> names = names_in(path(name) / "checkpoints");
    std::erase(names, "latest");
    return names;
  }
  fs::path newest(const std::string& name) const {
    return path(name) / "checkpoints" / checkpoints(name).back();
  }
  nlohmann::json newest_index(const std::string& name) const {
    return nlohmann::json::parse(file_text(newest(name) / "index.json"));
  }
  Lines data(const std::string& name, int rank) const {
    return file_lines(path(name) / ("data-" + std::to_string(rank) + ".jsonl"));
  }

 private:
  ScratchFolder folder_;
  std::string file_;
};

// All that a checkpoint has, by its checksums, but for the time that has passed.
nlohmann::json state_in(const nlohmann::json& index) {
  const auto entries_of = [](const nlohmann::json& entries) {
    nlohmann::json state = entries["numbers"];
    for (const auto& [name, tensor] : entries["tensors"].items()) {
      nlohmann::json& entry = state[name];
      entry = {tensor["dtype"], tensor["shape"], tensor["scope"]};
      for (const auto& piece : tensor["pieces"]) {
        entry.push_back({piece["first"], piece["numel"], piece["xxh3"]});
      }
    }
    state.erase("run/seconds");
    state.erase("figures/figures");  // those that no record has told yet: some are of time
    return state;
  };
  nlohmann::json state = {entries_of(index["shared"]), index["versions"]};
  for (const auto& entries : index["by_rank"]) {
    state.push_back(entries_of(entries));
  }
  return state;
}

// The events of a run, one process after the other, but for those of the stop and the start.
Lines events_in(const fs::path& run) {
  static const std::set<std::string> kOfProcess = {"before_init",
                                                   "after_init",
                                                   "start",
                                                   "after_load",
                                                   "window_mode",
                                                   "before_checkpoint",
                                                   "after_checkpoint",
                                                   "end"};
  // Where a run stops and goes on in the middle, these are told twice: the first beginning counts,
  // and the last end.
  static const std::set<std::string> kBegins = {"before_epoch", "before_window"};
  static const std::set<std::string> kEnds = {"out_of_data", "after_window", "after_epoch"};
  std::map<std::string, std::string> told;
  Lines events;
  for (const std::string& line : file_lines(run / "events.jsonl")) {
    const nlohmann::json event = nlohmann::json::parse(line);
    const std::string name = event["event"];
    if (kOfProcess.contains(name)) {
      continue;
    }
    if (kBegins.contains(name) || kEnds.contains(name)) {
      std::string& before = told[name + event["epoch"].dump() + event["window"].dump()];
      if (!before.empty() && kBegins.contains(name)) {
        continue;
      }
      if (!before.empty()) {
        std::erase(events, before);
      }
      before = line;
    }
    events.push_back(line);
  }
  return events;
}

// Where two lists part; "" where they do not.
std::string parting(const Lines& found, const Lines& wanted) {
  const auto [at, other] = std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end());
  if (at == found.end() && other == wanted.end()) {
    return "";
  }
  const auto shown = [](const auto& line, const Lines& lines) {
    return line == lines.end() ? std::string("the end") : *line;
  };
  return "line " + std::to_string(at - found.begin() + 1) + ": " + shown(at, found) +
         ", in the other " + shown(other, wanted);
}

std::string saved_recipe(const std::string& patch = "{}") {
  return patched(busy_recipe(R"({"checkpoint": {"every_steps": 3, "keep_last": 2}})"), patch);
}

std::string language_recipe(const std::string& patch = "{}") {
  return patched(small_language_recipe(
                     R"({"train": {"recompute": "blocks"}, "checkpoint": {"every_steps": 4}})"),
                 patch);
}

// A table for each sparse optimizer, and a dense parameter at least for each dense one.
std::string every_optimizer_recipe() {
  return R"({"name": "optimizers", "threads": {"compute": 1},
    "model": {"type": "deepfm", "options": {"categorical": ["c0..c7"], "dim": 4, "hidden": [8, 6],
      "first_order": false, "dense": [{"name": "dense", "size": 3}]}},
    "data": {"batch_size": 4, "train": {"type": "criteo_like", "options": {
      "samples": 90, "categorical": 8, "dense": 3, "num_ids": 200}}},
    "loss": {"type": "bce_with_logits", "inputs": {"labels": "label"}},
    "tables": {
      "c0": {"optimizer": {"type": "sgd", "options": {"lr": 0.05, "momentum": 0.9}}},
      "c1": {"optimizer": {"type": "adagrad", "options": {"lr": 0.05}}},
      "c2": {"optimizer": {"type": "rowwise_adagrad", "options": {"lr": 0.05}}},
      "c3": {"optimizer": {"type": "adam", "options": {"lr": 0.05}}},
      "c4": {"optimizer": {"type": "adamw", "options": {"lr": 0.05, "weight_decay": 0.1}}},
      "c5": {"optimizer": {"type": "ftrl", "options": {"lr": 0.05, "l1": 0.001}}},
      "c6": {"optimizer": {"type": "lion", "options": {"lr": 0.01}}},
      "c7": {"optimizer": {"type": "adam", "options": {"narrow": "random"}}, "dtype": "bf16",
             "admit": {"count": 2}, "evict": {"max_rows": 9}}},
    "optimizer": {"type": "adamw", "options": {"lr": 0.02}, "groups": [
      {"match": "*0*weight*", "type": "sgd", "momentum": 0.9},
      {"match": "*0*bias*", "type": "adam", "amsgrad": true},
      {"match": "*1*weight*", "type": "adagrad"}]},
    "lr_scheduler": {"type": "one_cycle"},
    "train": {"steps": 12, "global_batch_size": 16, "log_every": 1, "clip_grad_norm": 1.0},
    "checkpoint": {"every_steps": 5}})";
}

// The elements of a file of fp32, fp64 or int64, by the index of its checkpoint.
std::vector<double> elements_of(const nlohmann::json& tensor, const fs::path& checkpoint) {
  std::vector<double> elements;
  const auto add = [&elements]<class T>(const std::string& bytes, T) {
    for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
      T element;
      std::memcpy(&element, bytes.data() + at, sizeof(T));
      elements.push_back(static_cast<double>(element));
    }
  };
  for (const auto& piece : tensor["pieces"]) {
    const std::string file = file_text(checkpoint / piece["file"].get<std::string>());
    const auto begin = piece["begin"].get<size_t>();
    const std::string bytes = file.substr(begin, piece["end"].get<size_t>() - begin);
    if (tensor["dtype"] == "F64") {
      add(bytes, double{});
    } else if (tensor["dtype"] == "F32") {
      add(bytes, float{});
    } else {
      REQUIRE(tensor["dtype"] == "I64");
      add(bytes, int64_t{});
    }
  }
  return elements;
}

// What all ranks have read for each step, in the order of samples.
std::map<std::string, std::vector<int64_t>> samples_by_step(const Runs& runs,
                                                            const std::string& name) {
  std::map<std::string, std::vector<int64_t>> samples;
  for (int rank = 0; rank < 4; ++rank) {
    for (const std::string& line : runs.data(name, rank)) {
      const nlohmann::json batch = nlohmann::json::parse(line);
      auto& of_step = samples[batch["step"].dump() + batch["is_train"].dump()];
      for (const auto& value : batch["values"]) {
        if (value != -1) {  // a place that no sample takes
          of_step.push_back(value.get<int64_t>());
        }
      }
    }
  }
  for (auto& [step, values] : samples) {
    std::ranges::sort(values);
  }
  return samples;
}

// Parameters and rows of two runs that ended on one rank: to `bound` by element, or as a whole.
void check_close(const Runs& runs,
                 const std::string& found,
                 const std::string& wanted,
                 bool is_fp64) {
  const nlohmann::json of_found = runs.newest_index(found);
  const nlohmann::json of_wanted = runs.newest_index(wanted);
  double differences = 0;
  double norm = 0;
  int num_tensors = 0;
  for (const char* const part : {"shared", "by_rank"}) {
    const bool is_shared = part == std::string("shared");
    const auto& of = is_shared ? of_wanted[part] : of_wanted[part][0];
    for (const auto& [name, tensor] : of["tensors"].items()) {
      const bool is_id = name.ends_with("/ids");
      if (!name.starts_with("parameters/values/") &&
          !(name.starts_with("tables/") && (is_id || name.ends_with("/values")))) {
        continue;
      }
      INFO(name);
      ++num_tensors;
      const auto& other = is_shared ? of_found[part] : of_found[part][0];
      const std::vector<double> a = elements_of(other["tensors"][name], runs.newest(found));
      const std::vector<double> b = elements_of(tensor, runs.newest(wanted));
      REQUIRE(a.size() == b.size());
      for (size_t i = 0; i < a.size(); ++i) {
        if (is_id || is_fp64) {
          REQUIRE(std::abs(a[i] - b[i]) <= (is_id ? 0 : 1e-10));
        } else {
          differences += (a[i] - b[i]) * (a[i] - b[i]);
          norm += b[i] * b[i];
        }
      }
    }
  }
  CHECK(num_tensors > 0);
  CHECK(std::sqrt(differences) <= 1e-5 * std::sqrt(norm));
}

}  // namespace

TEST_CASE("a run that is stopped and resumed equals the run that never stopped",
          "[recipes][members]") {
  struct Case {
    std::string what;
    std::string recipe;
    std::vector<int> num_ranks = {1, 2};
    std::string ids = "sample_id";
  };
  const std::string kStream = R"({"checkpoint": {"staging": "stream", "every_steps": 1}})";
  const auto language_in = [](const std::string& precision) {
    return language_recipe(R"({"train": {"precision": ")" + precision + R"("}})");
  };
  const std::vector<Case> cases = {
      {"dense", saved_recipe()},
      {"dense, streamed", saved_recipe(kStream)},
      {"tables", saved_recipe(kRowsOfTables)},
      {"tables, streamed", patched(saved_recipe(kRowsOfTables), kStream)},
      {"every optimizer", every_optimizer_recipe(), {1, 2}, "c0"},
      {"language", language_recipe(), {1, 2}, "input_ids"},
      {"language, bf16_params", language_in("bf16_params"), {1, 2}, "input_ids"},
      {"language, bf16_autocast", language_in("bf16_autocast"), {2}, "input_ids"},
      {"language, bf16", language_in("bf16"), {1}, "input_ids"}};
  std::mt19937 random(7);
  for (const Case& of : members_of(cases, 2)) {
    for (const int num_ranks : of.num_ranks) {
      const int stop = 1 + static_cast<int>(random() % 10);
      INFO(of.what << ", " << num_ranks << " ranks, stopped after step " << stop);
      const Runs runs(of.recipe, of.ids);
      runs.run_whole("whole", num_ranks);
      runs.run_in_parts("parts", {stop}, {num_ranks, num_ranks});
      const auto summary = runs.summary("parts");
      const auto whole = runs.summary("whole");
      CHECK(summary["resumed"]["step"] == stop);
      CHECK(summary["parameters_hash"] == whole["parameters_hash"]);
      CHECK(summary["samples"] == whole["samples"]);
      CHECK(runs.records("parts") == runs.records("whole"));
      CHECK(runs.checkpoints("parts").back() == runs.checkpoints("whole").back());
      CHECK(state_in(runs.newest_index("parts")) == state_in(runs.newest_index("whole")));
      const Lines events = events_in(runs.path("parts"));
      CHECK(events.size() > 50);
      CHECK(parting(events, events_in(runs.path("whole"))) == "");
      for (int rank = 0; rank < num_ranks; ++rank) {
        CHECK(!runs.data("whole", rank).empty());
        CHECK(parting(runs.data("parts", rank), runs.data("whole", rank)) == "");
      }
    }
  }
}

TEST_CASE("a run resumes on another number of ranks", "[recipes][multi-rank][.release]") {
  struct Case {
    std::string what;
    std::string recipe;
    std::string ids = "sample_id";
  };
  const std::string kExact = R"({"train": {"precision": "fp64"}})";
  const std::vector<Case> cases = {{"dense, fp64", saved_recipe(kExact)},
                                   {"tables", saved_recipe(kRowsOfTables)},
                                   {"language, fp64", language_recipe(kExact), "input_ids"}};
  for (const Case& of : cases) {
    INFO(of.what);
    // A mean over several steps begins anew where ranks change.
    const Runs runs(patched(of.recipe, R"({"train": {"log_every": 1}})"), of.ids);
    runs.run_whole("whole");
    runs.run_in_parts("parts", {3, 7, 9}, {1, 2, 4, 1});
    CHECK(runs.summary("parts")["samples"] == runs.summary("whole")["samples"]);
    const auto samples = samples_by_step(runs, "parts");
    CHECK(samples.size() >= 12);
    CHECK(samples == samples_by_step(runs, "whole"));
    const auto wanted = runs.records("whole");
    const auto found = runs.records("parts");
    REQUIRE(found.size() == wanted.size());
    const bool is_fp64 = of.what.find("fp64") != std::string::npos;
    for (size_t i = 0; i < wanted.size(); ++i) {
      INFO(wanted[i] << " and " << found[i]);
      REQUIRE(found[i]["step"] == wanted[i]["step"]);
      for (const char* const metric : {"loss", "eval/loss"}) {
        if (wanted[i].contains(metric)) {
          const auto loss = wanted[i][metric].get<double>();
          CHECK(found[i][metric].get<double>() == Approx(loss).epsilon(is_fp64 ? 1e-10 : 1e-5));
        }
      }
    }
    check_close(runs, "parts", "whole", is_fp64);
  }
}

TEST_CASE("a corrupt checkpoint is named, and the previous one is used", "[recipes][.release]") {
  struct Damage {
    std::string what;
    std::function<void(const fs::path& newest, const fs::path& before)> make;
    std::string told;
  };
  const std::string kShard = "rank-1-of-2.safetensors";
  const auto flip = [](const fs::path& file, int64_t at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at, at < 0 ? std::ios::end : std::ios::beg);
    const auto position = stream.tellg();
    const char byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(position);
    stream.put(byte);
  };
  const auto replace = [](const fs::path& file, const fs::path& by) {
    fs::copy_file(by, file, fs::copy_options::overwrite_existing);
  };
  const std::vector<Damage> damages = {
      {"a bit of a tensor",
       [&](const fs::path& newest, const fs::path&) { flip(newest / kShard, -3); },
       kShard + " is corrupt: entry '"},
      {"a bit of a header",
       [&](const fs::path& newest, const fs::path&) { flip(newest / kShard, 20); },
       kShard + " is corrupt: its header"},
      {"a shard cut",
       [&](const fs::path& newest, const fs::path&) { fs::resize_file(newest / kShard, 700); },
       kShard + " has 700 bytes"},
      {"a shard missing",
       [&](const fs::path& newest, const fs::path&) { fs::remove(newest / kShard); },
       "the file " + kShard + " is missing"},
      {"shards swapped",
       [&](const fs::path& newest, const fs::path&) {
         fs::rename(newest / kShard, newest / "other");
         fs::rename(newest / "rank-0-of-2.safetensors", newest / kShard);
         fs::rename(newest / "other", newest / "rank-0-of-2.safetensors");
       },
       "-of-2.safetensors "},
      {"a shard of another checkpoint",
       [&](const fs::path& newest, const fs::path& before) {
         replace(newest / kShard, before / kShard);
       },
       kShard},
      {"a bit of the index",
       [&](const fs::path& newest, const fs::path&) { flip(newest / "index.json", 300); },
       "index.json does not match its checksum in SUMS.xxh128"},
      {"an index of another checkpoint",
       [&](const fs::path& newest, const fs::path& before) {
         replace(newest / "index.json", before / "index.json");
         replace(newest / "SUMS.xxh128", before / "SUMS.xxh128");
       },
       "COMMITTED and index.json are of different checkpoints"},
      {"a foreign file for a shard",
       [&](const fs::path& newest, const fs::path&) {
         const std::string text(fs::file_size(newest / kShard), '?');
         std::ofstream(newest / kShard, std::ios::trunc) << text;
       },
       kShard + " is corrupt: "},  // its header, or what is read of it first
      {"a foreign folder",
       [&](const fs::path& newest, const fs::path&) {
         const std::string record = file_text(newest / "COMMITTED");
         fs::remove_all(newest);
         fs::create_directories(newest);
         std::ofstream(newest / "notes.txt") << "mine";
         std::ofstream(newest / "COMMITTED") << record;
       },
       "is not a checkpoint, or is corrupt: it has no SUMS.xxh128"}};
  const Runs runs(saved_recipe());
  runs.run_whole("whole", 2);
  runs.stop_after("stopped", 7, 2);
  REQUIRE(runs.checkpoints("stopped").size() == 2);
  for (const Damage& damage : damages) {
    INFO(damage.what);
    const std::string name = damage.what;
    fs::copy(runs.path("stopped"), runs.path(name), fs::copy_options::recursive);
    const auto checkpoints = runs.checkpoints(name);
    const fs::path newest = runs.newest(name);
    damage.make(newest, newest.parent_path() / checkpoints.front());
    const SubprocessResult result = runs.run(name, 2);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.err, contains_text(newest.string()) && contains_text(damage.told));
    CHECK_THAT(result.err, contains_text("trying the checkpoint before it"));
    CHECK(runs.summary(name)["resumed"]["step"] == 6);
    CHECK(runs.summary(name)["parameters_hash"] == runs.summary("whole")["parameters_hash"]);
    CHECK(runs.records(name) == runs.records("whole"));
  }
}

TEST_CASE("an export uses the newest valid checkpoint and names it", "[recipes][.release]") {
  const Runs runs(saved_recipe());
  runs.stop_after("run", 7);
  const fs::path newest = runs.newest("run");
  const fs::path before = newest.parent_path() / runs.checkpoints("run").front();
  const auto exported = [&](const std::string& file, const Lines& from) {
    Lines words = {host_program().string(), "--export", "torch", runs.path(file).string()};
    words.insert(words.end(), {"--plugin-dir", plugin_dir().string()});
    words.insert(words.end(), {"--plugin-dir", test_plugin_dir().string()});
    words.insert(words.end(), from.begin(), from.end());
    return run_subprocess(words);
  };
  const auto older = exported("older.pt", {"--from", before.string()});
  INFO(older.out << older.err);
  REQUIRE(older.exit_code == 0);
  const std::string shard = file_text(newest / "rank-0-of-1.safetensors");
  const std::string recipe = file_text(newest / "recipe.json");
  struct Damage {
    std::string file;
    std::string content;
  };
  // That of the last parameter is found when others are written already.
  size_t position = 0;
  const nlohmann::json index = runs.newest_index("run");
  for (const auto& [name, tensor] : index["shared"]["tensors"].items()) {
    position = name.starts_with("parameters/values/") ? tensor["pieces"][0]["begin"].get<size_t>()
                                                      : position;
  }
  REQUIRE(position > 0);
  std::string flipped = shard;
  flipped[position] = static_cast<char>(flipped[position] ^ 1);
  int number = 0;
  for (const Damage& damage : {Damage{"rank-0-of-1.safetensors", flipped},
                               Damage{"rank-0-of-1.safetensors", shard.substr(0, 300)},
                               Damage{"recipe.json", recipe.substr(0, 30)}}) {
    std::ofstream(newest / damage.file, std::ios::trunc | std::ios::binary) << damage.content;
    const std::string file = std::to_string(++number) + ".pt";
    const auto result = exported(file, {"--run-dir", runs.path("run").string()});
    INFO(number << ": " << result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.err, contains_text(newest.string() + ": " + damage.file));
    CHECK_THAT(result.err, contains_text("trying the checkpoint before it"));
    CHECK_THAT(result.out, contains_text("from " + before.string() + "\n"));
    CHECK(file_text(runs.path(file)) == file_text(runs.path("older.pt")));
    const auto named = exported("named.pt", {"--from", newest.string()});
    CHECK(named.exit_code == 5);
    CHECK_THAT(named.err, contains_text("[checkpoint.damaged]"));
    CHECK_FALSE(fs::exists(runs.path("named.pt")));
    std::ofstream(newest / "rank-0-of-1.safetensors", std::ios::trunc | std::ios::binary) << shard;
    std::ofstream(newest / "recipe.json", std::ios::trunc | std::ios::binary) << recipe;
  }
}

TEST_CASE("a run without a valid checkpoint does not start over by itself", "[recipes]") {
  const Runs runs(saved_recipe(R"({"checkpoint": {"keep_last": 1}})"));
  REQUIRE(runs.run("run", 1, {"--set", "train.exit_at_step=7"}).exit_code == 75);
  const auto only = runs.newest("run");
  fs::remove(only / "rank-0-of-1.safetensors");
  const SubprocessResult result = runs.run("run");
  INFO(result.out << result.err);
  CHECK(result.exit_code == 5);
  CHECK_THAT(result.err,
             contains_text("[checkpoint.none_sound]") && contains_text("is missing") &&
                 contains_text("--resume"));
  CHECK(fs::exists(only / "index.json"));  // nothing of it is thrown away
}

TEST_CASE("what may change of a recipe does, and what may not is refused with both values",
          "[recipes]") {
  const Runs runs(saved_recipe());
  REQUIRE(runs.run("run", 1, {"--set", "train.exit_at_step=5"}).exit_code == 75);
  const std::string records = file_text(runs.path("run") / "metrics.jsonl");
  const std::string recipe = file_text(runs.path("run") / "recipe.json");
  const SubprocessResult refused =
      runs.run("run", 1, {"--set", "model.options.hidden=[16]", "--set", "train.steps=20"});
  INFO(refused.out << refused.err);
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err,
             contains_text("[resume.recipe_changed]") &&
                 contains_text("/models/main/options/hidden") && contains_text("16"));
  CHECK(file_text(runs.path("run") / "metrics.jsonl") == records);  // nothing is lost by it
  CHECK(file_text(runs.path("run") / "recipe.json") == recipe);
  const SubprocessResult warned =
      runs.run("run", 1, {"--set", "train.steps=20", "--set", "optimizer.options.lr=0.03"});
  INFO(warned.out << warned.err);
  CHECK(warned.exit_code == 0);
  CHECK_THAT(warned.err,
             contains_text("/optimizer") && contains_text("0.02") && contains_text("0.03"));
  CHECK(runs.summary("run")["steps"] == 20);
}

TEST_CASE("one checkpoint that was named is gone on from, in a run of its own", "[recipes]") {
  const Runs runs(saved_recipe(R"({"checkpoint": {"keep_last": 0}})"));
  REQUIRE(runs.run("first").exit_code == 0);
  const auto checkpoints = runs.checkpoints("first");
  REQUIRE(checkpoints.size() == 5);
  const auto path = runs.path("first") / "checkpoints" / checkpoints[1];
  const SubprocessResult result = runs.run("second", 1, {"--resume", path.string()});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(runs.summary("second")["resumed"]["step"] == 6);
  CHECK(runs.summary("second")["parameters_hash"] == runs.summary("first")["parameters_hash"]);
  const SubprocessResult none = runs.run("third", 1, {"--resume", runs.path("").string()});
  CHECK(none.exit_code != 0);
  CHECK_THAT(none.err, contains_text("no finished checkpoint"));
}

}  // namespace tenon
