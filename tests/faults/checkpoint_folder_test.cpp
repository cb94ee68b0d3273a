// SPDX-License-Identifier: Apache-2.0
//
// Runs whose folder of checkpoints somebody else has been in: copies beside the checkpoints,
// flipped bits in COMMITTED and `latest`, folders and FIFOs in place of files, and checkpoints of
// earlier releases.
#include "host/checkpoint/checkpoint_index.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "tests/faults/started_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

void write_text(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::trunc | std::ios::binary) << text;
}

void flip_bit(const fs::path& file, size_t byte, int bit) {
  std::string text = file_text(file);
  text.at(byte) = static_cast<char>(text.at(byte) ^ (1 << bit));
  write_text(file, text);
}

SubprocessResult verified(const fs::path& path) {
  return run_subprocess({host_program().string(), "--verify", path.string()});
}

// Ten steps, saved after each second one; "stopped" has the checkpoints of the steps 2, 4, 6 and 7.
class StoppedRuns {
 public:
  StoppedRuns() {
    REQUIRE(run("whole").exit_code == 0);
    REQUIRE(run("stopped", {"--set", "train.exit_at_step=7"}).exit_code == 75);
    REQUIRE(steps("stopped") == std::vector<int>{2, 4, 6, 7});
  }

  SubprocessResult run(const std::string& name, const Names& more = {}) const {
    return run_host(recipe_, path(name), 1, more);
  }
  SubprocessResult verify(const std::string& name) const { return verified(path(name)); }
  // A copy of "stopped".
  void make(const std::string& name) const {
    fs::copy(path("stopped"), path(name), fs::copy_options::recursive);
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  fs::path root(const std::string& name) const { return path(name) / "checkpoints"; }
  fs::path checkpoint(const std::string& name, int step) const {
    return root(name) / ("step-0000000" + std::to_string(step) + "_epoch-0");
  }
  // Of the checkpoints that have the names of steps.
  std::vector<int> steps(const std::string& name) const {
    std::vector<int> steps;
    for (const std::string& checkpoint : names_in(root(name))) {
      if (checkpoint.starts_with("step-") && fs::exists(root(name) / checkpoint / "COMMITTED")) {
        steps.push_back(std::stoi(checkpoint.substr(5)));
      }
    }
    return steps;
  }

  // It resumes from `step`, says `told`, and ends as the run that was never stopped.
  void check_resumes(const std::string& name, int step, const std::string& told) const {
    const SubprocessResult result = run(name);
    INFO(name << ": " << result.out << result.err);
    REQUIRE(result.exit_code == 0);
    CHECK_THAT(result.err, contains_text(told));
    CHECK(summary_of(path(name))["resumed"]["step"] == step);
    CHECK(summary_of(path(name))["checkpoints"]["failed"] == 0);
    CHECK(summary_of(path(name))["parameters_hash"] ==
          summary_of(path("whole"))["parameters_hash"]);
    CHECK(records_of(path(name)) == records_of(path("whole")));
    CHECK(file_text(root(name) / "latest") == file_text(root("whole") / "latest"));
    CHECK(verify(name).exit_code == 0);
  }

 private:
  ScratchFolder folder_;
  fs::path recipe_ = folder_.write("recipe.json", small_recipe(R"({
    "optimizer": {"type": "adamw", "options": {"lr": 0.02}},
    "train": {"steps": 10, "log_every": 1},
    "data": {"train": {"options": {"samples": 200}}},
    "checkpoint": {"every_steps": 2, "keep_last": 4, "retries": 0}})"));
};

// Makes all checkpoints of a folder what an earlier release would have written.
void make_earlier_release(const fs::path& root) {
  for (const std::string& name : names_in(root)) {
    if (!fs::is_directory(root / name)) {
      continue;
    }
    const std::string record = file_text(root / name / "COMMITTED");
    write_text(root / name / "COMMITTED", record.substr(0, record.find(' ')) + "\n");
    nlohmann::json index = nlohmann::json::parse(file_text(root / name / "index.json"));
    REQUIRE(index["facts"].erase("checkpoint") == 1);
    const std::string text = index.dump(1) + "\n";
    write_text(root / name / "index.json", text);
    write_text(root / name / "SUMS.xxh128",
               sums_text(text, file_text(root / name / "recipe.json")));
  }
}

}  // namespace

TEST_CASE("copies of checkpoints made during a run stop no save and are not removed", "[faults]") {
  const ScratchFolder folder;
  const fs::path recipe = folder.write("recipe.json", small_recipe(R"({"train": {"steps": 300},
    "checkpoint": {"every_steps": 2, "keep_last": 2, "retries": 0}})"));
  const fs::path run_dir = folder.path() / "run";
  const fs::path root = run_dir / "checkpoints";
  StartedRun run(recipe, run_dir);
  wait_until([&] { return run.has_ended() || fs::exists(root / "latest"); });
  run.signal(SIGSTOP);
  wait_until([&] {
    return run.has_ended() ||
           file_text("/proc/" + std::to_string(run.process()) + "/stat").find(") T ") !=
               std::string::npos;
  });
  REQUIRE_FALSE(run.has_ended());
  const std::string latest = file_text(root / "latest");
  const std::string copied = latest.substr(0, latest.size() - 1);
  const Names copies = {copied + " (copy)", copied + ".bak", "good"};
  for (const std::string& copy : copies) {
    fs::copy(root / copied, root / copy, fs::copy_options::recursive);
  }
  const auto contents = [&](const std::string& name) {
    Names contents;
    for (const std::string& file : names_in(root / name)) {
      contents.push_back(file + ": " + file_text(root / name / file));
    }
    return contents;
  };
  const Names content = contents(copied);
  run.signal(SIGCONT);
  const int code = run.wait();
  INFO(run.out() << run.err());
  REQUIRE(code == 0);
  CHECK(summary_of(run_dir)["checkpoints"]["failed"] == 0);
  CHECK(summary_of(run_dir)["checkpoints"]["committed"] == 150);
  CHECK_THAT(file_text(root / "latest"), contains_text("step-00000300_"));
  for (const std::string& copy : copies) {
    INFO(copy);
    CHECK((contents(copy) == content));
  }
  Names left = names_in(root);
  std::erase_if(left, [&](const std::string& name) {
    return name == "latest" || std::ranges::find(copies, name) != copies.end();
  });
  REQUIRE(left.size() == 2);
  CHECK_THAT(left[0], contains_text("step-00000298_"));
  // Whatever takes the folder, takes the newest of the run.
  const std::string skipped = copied + " (copy)\": its name is not valid";
  const SubprocessResult newest = verified(run_dir);
  CHECK(newest.exit_code == 0);
  CHECK_THAT(newest.out, contains_text("step-00000300_"));
  CHECK_THAT(newest.err, contains_text(skipped));
  const SubprocessResult longer = run_host(recipe, run_dir, 1, {"--set", "train.steps=302"});
  INFO(longer.out << longer.err);
  CHECK(longer.exit_code == 0);
  CHECK_THAT(longer.out, contains_text("resumed from " + (root / "step-00000300_").string()));
  CHECK_THAT(longer.err, contains_text(skipped));
  const SubprocessResult exported = run_host(
      {"--export", "torch", (folder.path() / "a.pt").string(), "--run-dir", run_dir.string()});
  CHECK(exported.exit_code == 0);
  CHECK_THAT(exported.out, contains_text("step-00000302_"));
  CHECK(verified(root / copies[1]).exit_code == 0);
}

TEST_CASE("a flipped bit in COMMITTED or `latest` is reported, and costs at most one checkpoint",
          "[faults]") {
  const StoppedRuns runs;
  const std::string corrupt = "COMMITTED is corrupt";
  runs.make("newest");
  flip_bit(runs.checkpoint("newest", 7) / "COMMITTED", 0, 1);
  const SubprocessResult damaged = runs.verify("newest");
  CHECK(damaged.exit_code == 5);
  CHECK_THAT(damaged.err, contains_text("[checkpoint.damaged]") && contains_text(corrupt));
  // It may be the newest, and is tried first. It is neither counted nor removed.
  CHECK_THAT(runs.run("newest", {"--set", "train.exit_at_step=8"}).err,
             contains_text(runs.checkpoint("newest", 7).string() + "/COMMITTED is corrupt") &&
                 contains_text("trying the checkpoint before it"));
  CHECK(summary_of(runs.path("newest"))["resumed"]["step"] == 6);
  CHECK(runs.steps("newest") == std::vector<int>{2, 4, 6, 7, 8});
  flip_bit(runs.checkpoint("newest", 7) / "COMMITTED", 0, 1);
  runs.check_resumes("newest", 8, "");
  runs.make("oldest");
  flip_bit(runs.checkpoint("oldest", 2) / "COMMITTED", 0, 6);
  runs.check_resumes("oldest", 7, corrupt);
  CHECK(runs.steps("oldest") == std::vector<int>{2, 6, 7, 8, 10});
  runs.make("latest");
  flip_bit(runs.root("latest") / "latest", 12, 0);
  runs.check_resumes("latest", 7, "latest names step-00000006_epoch-0, but");
}

TEST_CASE("a folder or a FIFO in place of a file costs one checkpoint, and blocks nothing",
          "[faults]") {
  const StoppedRuns runs;
  for (const std::string file : {"COMMITTED", "index.json", "rank-0-of-1.safetensors", "latest"}) {
    for (const bool is_fifo : {false, true}) {
      const std::string name = file + (is_fifo ? "-fifo" : "-folder");
      runs.make(name);
      const fs::path path =
          file == "latest" ? runs.root(name) / file : runs.checkpoint(name, 7) / file;
      fs::remove(path);
      if (is_fifo) {
        REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
      } else {
        fs::create_directory(path);
      }
      const SubprocessResult result = runs.run(name);
      INFO(name << ": " << result.out << result.err);
      CHECK(result.exit_code == 0);
      CHECK_THAT(
          result.err,
          contains_text(path.string()) && contains_text(is_fifo ? "is a FIFO" : "is a folder"));
      CHECK(summary_of(runs.path(name))["resumed"]["step"] == (file == "latest" ? 7 : 6));
      CHECK(summary_of(runs.path(name))["checkpoints"]["failed"] == 0);
      CHECK(records_of(runs.path(name)) == records_of(runs.path("whole")));
    }
  }
}

TEST_CASE("checkpoints of earlier releases, without checksums in COMMITTED, are used and kept",
          "[faults]") {
  const StoppedRuns runs;
  const auto make_old = [&](const std::string& name) {
    runs.make(name);
    make_earlier_release(runs.root(name));
  };
  make_old("valid");
  CHECK(file_text(runs.checkpoint("valid", 7) / "COMMITTED") == "4\n");
  const SubprocessResult old = runs.verify("valid");
  CHECK(old.exit_code == 0);
  CHECK_THAT(old.out, contains_text("COMMITTED has no checksum"));
  fs::copy(runs.checkpoint("valid", 2), runs.root("valid") / "step-00000002_epoch-0.bak");
  const SubprocessResult first = runs.run("valid", {"--set", "train.exit_at_step=9"});
  INFO(first.out << first.err);
  CHECK(first.exit_code == 75);
  CHECK_THAT(first.err, !contains_text("uncertain"));
  // What their steps gave the names is removed; a copy is not.
  CHECK(runs.steps("valid") == std::vector<int>{2, 6, 7, 8, 9});
  runs.check_resumes("valid", 9, "");
  CHECK(fs::exists(runs.root("valid") / "step-00000002_epoch-0.bak" / "index.json"));
  // A flipped bit made the oldest one the newest: the run resumed from it and removed the others.
  make_old("flipped");
  write_text(runs.checkpoint("flipped", 2) / "COMMITTED", "57\n");
  const SubprocessResult flipped =
      runs.run("flipped", {"--set", "train.exit_at_step=8", "--set", "checkpoint.keep_last=2"});
  INFO(flipped.out << flipped.err);
  CHECK_THAT(flipped.err, contains_text("the order of the checkpoints is uncertain"));
  CHECK(summary_of(runs.path("flipped"))["resumed"]["step"] == 7);
  CHECK(runs.steps("flipped") == std::vector<int>{2, 7, 8});
  runs.check_resumes("flipped", 8, "");
  // The number after this one wrapped to 0.
  make_old("largest");
  write_text(runs.checkpoint("largest", 4) / "COMMITTED", "18446744073709551615\n");
  runs.check_resumes("largest", 7, "COMMITTED is corrupt");
}

}  // namespace tenon
