// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints whose checksums are right and whose content is not: numbers that no run saves,
// metrics in another form, shapes of another model, and an index of 1 TB. The run reports the
// checkpoint and resumes from the one before.
#include "host/checkpoint/checkpoint_index.hpp"
#include "host/io/checksum.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/faults/started_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

void replace_text(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::trunc | std::ios::binary) << text;
}

// Changes the index of a checkpoint, whose checksums then fit again.
void craft_index(const fs::path& checkpoint, const std::function<void(CheckpointIndex&)>& change) {
  CheckpointIndex index = index_of(file_text(checkpoint / "index.json"), checkpoint.string());
  change(index);
  const std::string text = index_text(index);
  replace_text(checkpoint / "index.json", text);
  replace_text(checkpoint / "SUMS.xxh128", sums_text(text, file_text(checkpoint / "recipe.json")));
}

void set_number(const fs::path& checkpoint,
                const std::string& name,
                const std::variant<int64_t, double>& value) {
  craft_index(checkpoint, [&](CheckpointIndex& index) {
    int num_set = 0;
    const auto set = [&](StoredEntries& entries) {
      if (const auto found = entries.numbers.find(name); found != entries.numbers.end()) {
        found->second.value = value;
        ++num_set;
      }
    };
    set(index.shared);
    std::ranges::for_each(index.by_rank, set);
    REQUIRE(num_set > 0);
  });
}

// Replaces the spaces of a text of the state.
void remove_spaces(const fs::path& checkpoint, const std::string& name) {
  craft_index(checkpoint, [&](CheckpointIndex& index) {
    int num_changed = 0;
    const auto change = [&](StoredEntries& entries) {
      const auto found = entries.tensors.find(name);
      if (found == entries.tensors.end()) {
        return;
      }
      for (StoredPiece& piece : found->second.pieces) {
        std::string bytes = file_text(checkpoint / piece.file);
        const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(piece.begin);
        const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(piece.end);
        num_changed += static_cast<int>(std::count(begin, end, ' '));
        std::replace(begin, end, ' ', 'x');
        replace_text(checkpoint / piece.file, bytes);
        Checksum sum;
        sum.add(std::as_bytes(std::span(begin, end)));
        piece.xxh3 = sum.value();
      }
    };
    change(index.shared);
    std::ranges::for_each(index.by_rank, change);
    REQUIRE(num_changed > 0);
  });
}

void transpose_first_matrix(const fs::path& checkpoint) {
  craft_index(checkpoint, [](CheckpointIndex& index) {
    const auto found = std::ranges::find_if(index.shared.tensors, [](const auto& entry) {
      return entry.first.starts_with("parameters/values/") && entry.second.shape.size() == 2 &&
             entry.second.shape[0] != entry.second.shape[1];
    });
    REQUIRE(found != index.shared.tensors.end());
    std::ranges::reverse(found->second.shape);
  });
}

struct Crafted {
  std::string name;
  std::function<void(const fs::path& checkpoint)> change;
  std::string said;
};

std::vector<Crafted> crafted_states() {
  constexpr uintmax_t kTerabyte = uintmax_t{1} << 40;
  const auto number = [](const std::string& entry, std::variant<int64_t, double> value) {
    return [=](const fs::path& checkpoint) { set_number(checkpoint, entry, value); };
  };
  const auto grown = [](const std::string& file) {
    return [=](const fs::path& checkpoint) { fs::resize_file(checkpoint / file, kTerabyte); };
  };
  return {
      {"step", number("run/step", int64_t{-1}), "'run/step' is -1"},
      {"another-step", number("run/step", int64_t{4000}), "the state is of step 4000"},
      {"epochs", number("run/epochs", int64_t{-7}), "'run/epochs' is -7"},
      {"samples", number("run/samples", std::numeric_limits<int64_t>::min()), "'run/samples' is -"},
      {"seconds", number("run/seconds", std::numeric_limits<double>::quiet_NaN()), "'run/seconds'"},
      {"flag", number("run/evaluated", int64_t{2}), "'run/evaluated' is 2"},
      {"number-type", number("run/updates", 2.5), "run/updates"},
      {"guard", number("guard/steps", int64_t{-1}), "'guard/steps' is -1"},
      {"data", number("data/train/epoch", int64_t{-1}), "'data/train/epoch' is -1"},
      {"last-metrics",
       [](const fs::path& checkpoint) { remove_spaces(checkpoint, "run/last_figures"); },
       "saved metrics"},
      {"book",
       [](const fs::path& checkpoint) { remove_spaces(checkpoint, "figures/figures"); },
       "metrics since the last record"},
      {"shape", transpose_first_matrix, "parameters/values/"},
      {"index", grown("index.json"), "index.json has 1099511627776 bytes"},
      {"recipe", grown("recipe.json"), "recipe.json has 1099511627776 bytes"},
      {"sums", grown("SUMS.xxh128"), "SUMS.xxh128 has 1099511627776 bytes"}};
}

}  // namespace

TEST_CASE("a checkpoint with right checksums and wrong content costs one checkpoint",
          "[faults][ranks][.release]") {
  const ScratchFolder folder;
  const fs::path recipe =
      folder.write("recipe.json", busy_recipe(R"({"train": {"steps": 8}, "eval": {"every_steps": 2},
                      "checkpoint": {"every_steps": 2, "keep_last": 0, "retries": 0}})"));
  for (const int num_ranks : {1, 2}) {
    const auto path = [&](const std::string& name) {
      return folder.path() / (name + "-" + std::to_string(num_ranks));
    };
    REQUIRE(run_host(recipe, path("whole"), num_ranks).exit_code == 0);
    REQUIRE(
        run_host(recipe, path("stopped"), num_ranks, {"--set", "train.exit_at_step=5"}).exit_code ==
        75);
    for (const Crafted& one : crafted_states()) {
      if (num_ranks > 1 && one.name != "step" && one.name != "book" && one.name != "index") {
        continue;
      }
      const fs::path run = path(one.name);
      fs::copy(path("stopped"), run, fs::copy_options::recursive);
      const std::string newest = check_checkpoints(run).name;
      CHECK_THAT(newest, contains_text("step-00000005"));
      one.change(run / "checkpoints" / newest);
      const SubprocessResult result = run_host(recipe, run, num_ranks);
      INFO(one.name << " on " << num_ranks << ": " << result.out << result.err);
      REQUIRE(result.exit_code == 0);
      CHECK_THAT(result.err,
                 contains_text((run / "checkpoints" / newest).string()) &&
                     contains_text(one.said) && contains_text("; trying the checkpoint before it"));
      CHECK(summary_of(run)["resumed"]["step"] == 4);
      CHECK(summary_of(run)["steps"] == 8);
      CHECK(summary_of(run)["parameters_hash"] == summary_of(path("whole"))["parameters_hash"]);
      CHECK(records_of(run) == records_of(path("whole")));
    }
  }
}

TEST_CASE("if each checkpoint has wrong content, the run ends with the first reason", "[faults]") {
  const ScratchFolder folder;
  const fs::path recipe = folder.write(
      "recipe.json",
      small_recipe(R"({"checkpoint": {"every_steps": 2, "keep_last": 0, "retries": 0}})"));
  const fs::path run = folder.path() / "run";
  REQUIRE(run_host(recipe, run).exit_code == 0);
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    if (entry.is_directory()) {
      set_number(entry.path(), "run/step", int64_t{-1});
    }
  }
  const SubprocessResult result = run_host(recipe, run, 1, {"--set", "train.steps=9"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 5);
  CHECK_THAT(result.err, contains_text("[state.bad_value]") && contains_text("step-00000006"));
  CHECK_THAT(result.err, contains_text("resume from another checkpoint"));
}

TEST_CASE("a run that clips says that an earlier release summed norms in another order",
          "[faults]") {
  const ScratchFolder folder;
  const fs::path recipe = folder.write("recipe.json", small_recipe(R"({
      "train": {"steps": 6, "clip_grad_norm": 0.1},
      "checkpoint": {"every_steps": 2, "keep_last": 0, "retries": 0}})"));
  const fs::path stopped = folder.path() / "stopped";
  REQUIRE(run_host(recipe, stopped, 1, {"--set", "train.exit_at_step=4"}).exit_code == 75);
  const auto resumed = [&](const std::string& name,
                           int64_t norm_version,
                           const std::vector<std::string>& arguments) {
    const fs::path run = folder.path() / name;
    fs::copy(stopped, run, fs::copy_options::recursive);
    craft_index(run / "checkpoints" / check_checkpoints(run).name,
                [&](CheckpointIndex& index) { index.metadata.norm_version = norm_version; });
    const SubprocessResult result = run_host(recipe, run, 1, arguments);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(summary_of(run)["resumed"]["step"] == 4);
    return result.err;
  };
  const std::string word = "summed gradient norms in another order";
  CHECK_THAT(resumed("old", 0, {}), contains_text(word));
  CHECK_THAT(resumed("new", kNormVersion, {}), !contains_text(word));
  CHECK_THAT(resumed("unclipped", 0, {"--set", "train.clip_grad_norm=null"}), !contains_text(word));
}

}  // namespace tenon
