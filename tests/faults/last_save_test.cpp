// SPDX-License-Identifier: Apache-2.0
//
// Runs whose last checkpoint or export cannot be written: at the end, and on a request to stop.
// Exit status 5 and the summary say so, and the same command resumes once there is room.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/faults/started_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

// Six steps. A file of its checkpoints has more than kMostFileBytes, and no other file of a run
// has.
constexpr uint64_t kMostFileBytes = 100'000;

std::string last_save_recipe(const std::string& patch) {
  return patched(small_recipe(R"({
    "model": {"options": {"hidden": [8000]}},
    "train": {"global_batch_size": 8},
    "parallel": {"start_timeout_seconds": 60},
    "checkpoint": {"keep_last": 0, "retries": 0}})"),
                 patch);
}

class LastSaveRuns {
 public:
  LastSaveRuns(const std::string& patch, int num_ranks)
      : recipe_(folder_.write("recipe.json", last_save_recipe(patch))), num_ranks_(num_ranks) {
    REQUIRE(run("whole").exit_code == 0);
  }

  SubprocessResult run(const std::string& name,
                       const Words& more = {},
                       const SubprocessOptions& options = {}) const {
    return run_host(recipe_, path(name), num_ranks_, more, options);
  }
  // With disk calls below checkpoints/ that fail from the nth write on.
  SubprocessResult run_full(const std::string& name,
                            const std::string& what,
                            const Words& more = {}) const {
    return run(name,
               more,
               {.environment = {{"LD_PRELOAD", TENON_FAULTY_DISK},
                                {"TENON_FAULT_PATH", (path(name) / "checkpoints").string()},
                                {"TENON_FAULT_DO", what},
                                {"TENON_FAULT_CALLS", "write"}}});
  }

  // It ended as failed at `step`, for want of the checkpoint of that step, with `newest` there.
  void check_lost(const std::string& name,
                  const SubprocessResult& result,
                  uint64_t step,
                  uint64_t newest) const {
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 5);
    CHECK_THAT(result.err, contains_text("[checkpoint.failed] "));
    CHECK_THAT(result.err, contains_text("the run ended at step " + std::to_string(step) + " ("));
    CHECK_THAT(result.err, contains_text("could not be saved"));
    CHECK_THAT(result.err, contains_text("resume with the same command"));
    const nlohmann::json summary = summary_of(path(name));
    CHECK(summary["exit_code"] == 5);
    CHECK(summary["outcome"] == "failed");
    CHECK(summary["error_id"] == "checkpoint.failed");
    CHECK(summary["checkpoints"]["lost"]["step"] == step);
    CHECK_THAT(summary["checkpoints"]["lost"]["reason"].get<std::string>(),
               contains_text("could not be saved"));
    CHECK(check_checkpoints(path(name)).step == newest);
    if (newest > 0) {
      const std::string last = summary["checkpoints"]["last"].get<std::string>();
      CHECK(last.ends_with(check_checkpoints(path(name)).name));
      CHECK_THAT(result.err, contains_text("the newest committed checkpoint is " + last));
    } else {
      CHECK(summary["checkpoints"]["last"].is_null());
    }
  }

  // The same command, with room, ends as the run that lost nothing.
  void check_resumes(const std::string& name, uint64_t from) const {
    const SubprocessResult result = run(name);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    const nlohmann::json summary = summary_of(path(name));
    if (from > 0) {
      CHECK(summary["resumed"]["step"] == from);
    }
    CHECK(summary["checkpoints"]["lost"].is_null());
    CHECK(summary["parameters_hash"] == summary_of(path("whole"))["parameters_hash"]);
    CHECK(records_of(path(name)) == records_of(path("whole")));
    CHECK(check_checkpoints(path(name)).step == 6);
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }
  fs::path recipe() const { return recipe_; }

 private:
  ScratchFolder folder_;
  fs::path recipe_;
  int num_ranks_;
};

}  // namespace

TEST_CASE("a run whose last checkpoint does not fit ends with 5, and resumes once there is room",
          "[faults][ranks][.release]") {
  for (const int num_ranks : {1, 2}) {
    INFO(num_ranks << " ranks");
    const LastSaveRuns at_end(R"({"checkpoint": {"at_end": true}})", num_ranks);
    at_end.check_lost("full", at_end.run_full("full", "ENOSPC"), 6, 0);
    at_end.check_resumes("full", 0);
    const SubprocessResult limited = at_end.run("limited", {}, {.file_size_limit = kMostFileBytes});
    CHECK_THAT(limited.err, contains_text("File too large"));
    at_end.check_lost("limited", limited, 6, 0);
    at_end.check_resumes("limited", 0);
    // An earlier save that fits, and two that do not.
    const LastSaveRuns often(R"({"checkpoint": {"every_steps": 2}})", num_ranks);
    uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(often.path("whole/checkpoints"))) {
      bytes += entry.is_regular_file() ? entry.file_size() : 0;
    }
    const std::string half = std::to_string(bytes / 2 / static_cast<uint64_t>(num_ranks));
    often.check_lost("full", often.run_full("full", "full:" + half), 6, 2);
    often.check_resumes("full", 2);
  }
}

TEST_CASE("a run whose checkpoint at a request to stop does not fit ends with 5",
          "[faults][ranks]") {
  const Words stop = {
      "--set",
      R"(hooks=[{"type": "signal_at", "options": {"signals": [{"event": "after_step", "step": 3}]}}])"};
  for (const int num_ranks : {1, 2}) {
    INFO(num_ranks << " ranks");
    const LastSaveRuns runs(R"({"checkpoint": {"every_steps": 2}})", num_ranks);
    const SubprocessResult stopped = runs.run("stopped", stop);
    INFO(stopped.err);
    CHECK(stopped.exit_code == 75);
    CHECK(summary_of(runs.path("stopped"))["checkpoints"]["lost"].is_null());
    REQUIRE(check_checkpoints(runs.path("stopped")).step == 3);
    uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(runs.path("stopped/checkpoints"))) {
      bytes += entry.is_regular_file() ? entry.file_size() : 0;
    }
    // Of two equal checkpoints.
    const std::string room = std::to_string(bytes * 3 / 4 / static_cast<uint64_t>(num_ranks));
    const SubprocessResult full = runs.run_full("full", "full:" + room, stop);
    runs.check_lost("full", full, 3, 2);
    CHECK_THAT(full.err, contains_text("received SIGTERM"));
    runs.check_resumes("full", 2);
    // Not on a signal: a run that ends at a step.
    const SubprocessResult exits =
        runs.run_full("exits", "full:" + room, {"--set", "train.exit_at_step=3"});
    runs.check_lost("exits", exits, 3, 2);
    runs.check_resumes("exits", 2);
  }
}

TEST_CASE("an export or import that does not fit is an error, and leaves no file", "[faults]") {
  const LastSaveRuns runs(R"({"checkpoint": {"at_end": true}})", 1);
  const SubprocessOptions limited{.file_size_limit = kMostFileBytes};
  const fs::path out = runs.path("out");
  fs::create_directories(out);
  for (const std::string format : {"torch"}) {
    const fs::path file = out / ("weights." + format);
    const Words words = {
        "--export", format, file.string(), "--run-dir", runs.path("whole").string()};
    const SubprocessResult refused = run_host(words, limited);
    INFO(format << ": " << refused.out << refused.err);
    CHECK(refused.exit_code != 0);
    CHECK_THAT(refused.err, contains_text("File too large"));
    CHECK(fs::is_empty(out));
    CHECK(run_host(words).exit_code == 0);
    fs::remove_all(file);
  }
}

}  // namespace tenon
