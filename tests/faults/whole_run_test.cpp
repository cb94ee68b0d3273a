// SPDX-License-Identifier: Apache-2.0
//
// Faults of the disk, signals and the clock while the whole program trains and saves, and ranks
// that are lost and started again. What a run has saved loads, and the run goes on from it to the
// same end as one that met nothing.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/started_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Six steps, saved after two, four and six.
std::string saving_recipe(const std::string& patch = "{}") {
  return patched(small_recipe(R"({
    "optimizer": {"type": "adamw", "options": {"lr": 0.02}},
    "train": {"steps": 6, "log_every": 1, "global_batch_size": 8},
    "parallel": {"timeout_seconds": 4, "start_timeout_seconds": 60},
    "checkpoint": {"every_steps": 2, "keep_last": 2, "retries": 0}})"),
                 patch);
}

struct End {
  int code = 0;
  std::string text;
};

// Runs of one recipe in folders beside each other; "whole" meets no fault.
class Runs {
 public:
  explicit Runs(const std::string& recipe, std::vector<std::string> arguments = {})
      : recipe_(folder_.write("recipe.json", recipe)), arguments_(std::move(arguments)) {
    const End end = run("whole");
    INFO(end.text);
    REQUIRE(end.code == 0);
  }

  End run(const std::string& name,
          const std::map<std::string, std::string>& faults = {},
          const std::vector<std::string>& more = {}) const {
    const auto run = start(name, faults, more);
    const int code = run->wait();
    return {code, run->out() + run->err()};
  }

  std::unique_ptr<StartedRun> start(const std::string& name,
                                    std::map<std::string, std::string> faults = {},
                                    const std::vector<std::string>& more = {}) const {
    if (!faults.empty()) {
      faults.insert({{"LD_PRELOAD", TENON_FAULTY_DISK},
                     {"TENON_FAULT_PATH", (path(name) / "checkpoints").string()}});
    }
    std::vector<std::string> words = arguments_;
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<StartedRun>(recipe_, path(name), words, faults);
  }

  // Goes on by the same command to the end of the whole one, from the newest checkpoint.
  void check_goes_on(const std::string& name) const {
    const NewestCheckpoint newest = check_checkpoints(path(name));
    const End end = run(name);
    INFO(end.text);
    REQUIRE(end.code == 0);
    if (newest.step > 0) {
      CHECK(summary_of(path(name))["resumed"]["step"] == newest.step);
    }
    check_is_whole(name);
    CHECK(check_checkpoints(path(name)).name == check_checkpoints(path("whole")).name);
    // And nothing is left of what was begun.
    for (const auto& entry : fs::directory_iterator(path(name) / "checkpoints")) {
      CHECK_FALSE(entry.path().filename().string().starts_with("."));
    }
  }

  void check_is_whole(const std::string& name) const {
    CHECK(summary_of(path(name))["parameters_hash"] ==
          summary_of(path("whole"))["parameters_hash"]);
    CHECK(records_of(path(name)) == records_of(path("whole")));
  }

  // The calls of a run without a fault, of these kinds.
  std::vector<std::string> calls(const std::string& kinds) const {
    const fs::path log = folder_.path() / "calls";
    CHECK(run("logged", {{"TENON_FAULT_LOG", log.string()}, {"TENON_FAULT_CALLS", kinds}}).code ==
          0);
    std::ifstream in(log);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) {
      lines.push_back(line);
    }
    return lines;
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }
  const fs::path& recipe() const { return recipe_; }

 private:
  ScratchFolder folder_;
  fs::path recipe_;
  std::vector<std::string> arguments_;
};

std::string number_of(size_t number) {
  return std::to_string(number);
}

}  // namespace

TEST_CASE("whichever write, sync or rename of a save in a run fails, saved checkpoints load",
          "[faults][.release]") {
  const std::string kKinds = "write,sync,rename";
  const Runs goes_on(saving_recipe());
  const Runs stops(saving_recipe(R"({"checkpoint": {"on_failure": "stop"}})"));
  const std::vector<std::string> calls = goes_on.calls(kKinds);
  const auto first_of = [&](const char* part) {
    return static_cast<size_t>(
        std::ranges::find_if(
            calls, [&](const std::string& call) { return call.find(part) != std::string::npos; }) -
        calls.begin());
  };
  const size_t begin = first_of("/.open-step-00000004");
  const size_t end = first_of("/.open-step-00000006");
  REQUIRE(begin > 10);
  REQUIRE(end < calls.size());
  REQUIRE(end - begin > 15);
  int num_warned = 0;
  int num_stopped = 0;
  std::set<uint64_t> newest;
  for (size_t i = begin; i < end; ++i) {
    const auto faults = [&](const std::string& what) {
      return std::map<std::string, std::string>{{"TENON_FAULT_DO", what},
                                                {"TENON_FAULT_CALLS", kKinds},
                                                {"TENON_FAULT_NTH", number_of(i + 1)}};
    };
    INFO("call " << i + 1 << ": " << calls[i]);
    {
      const std::string name = "crash-" + number_of(i);
      const End end_of_run = goes_on.run(name, faults("crash"));
      INFO(end_of_run.text);
      CHECK(end_of_run.code == 128 + SIGKILL);
      const uint64_t step = check_checkpoints(goes_on.path(name)).step;
      CHECK((step == 2 || step == 4));
      newest.insert(step);
      goes_on.check_goes_on(name);
    }
    for (const std::string what : {"ENOSPC", "short"}) {
      if (what == "short" && !calls[i].starts_with("write ")) {
        continue;
      }
      const std::string name = what + "-" + number_of(i);
      const End end_of_run = goes_on.run(name, faults(what));
      INFO(what << ": " << end_of_run.text);
      CHECK(end_of_run.code == 0);
      goes_on.check_is_whole(name);
      CHECK(check_checkpoints(goes_on.path(name)).step == 6);
      const bool is_failed = summary_of(goes_on.path(name))["checkpoints"]["failed"] == 1;
      CHECK((!is_failed || what == "ENOSPC"));
      if (is_failed) {
        CHECK_THAT(end_of_run.text, contains_text("could not be saved"));
        CHECK_THAT(end_of_run.text, contains_text("No space left on device"));
        ++num_warned;
      }
    }
    const std::string name = "EIO-" + number_of(i);
    const End end_of_run = stops.run(name, faults("EIO"));
    INFO(end_of_run.text);
    if (end_of_run.code != 0) {
      CHECK(end_of_run.code == 5);
      CHECK_THAT(end_of_run.text, contains_text("[checkpoint.failed]"));
      CHECK_THAT(end_of_run.text, contains_text("Input/output error"));
      CHECK(summary_of(stops.path(name))["error_id"] == "checkpoint.failed");
      ++num_stopped;
      stops.check_goes_on(name);
    } else {
      stops.check_is_whole(name);
    }
  }
  // Late faults leave the new one there, and end nothing.
  CHECK(newest == std::set<uint64_t>{2, 4});
  CHECK(num_warned > 10);
  CHECK(num_stopped > 10);
}

TEST_CASE("a disk that fills during a run costs only the data that does not fit", "[faults]") {
  const Runs runs(saving_recipe(R"({"checkpoint": {"keep_last": 0}})"));
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(runs.path("whole") / "checkpoints")) {
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  }
  const End end = runs.run("full", {{"TENON_FAULT_DO", "full:" + number_of(bytes / 2)}});
  INFO(end.text);
  CHECK(end.code == 5);  // the last checkpoint is lost
  CHECK_THAT(end.text,
             contains_text("[checkpoint.failed] the run ended at step 6 (reached 6 "
                           "steps), but the checkpoint"));
  runs.check_is_whole("full");
  CHECK(summary_of(runs.path("full"))["checkpoints"]["committed"] == 1);
  CHECK(summary_of(runs.path("full"))["checkpoints"]["failed"] == 2);
  CHECK_THAT(end.text, contains_text("No space left on device; free disk space there"));
  runs.check_goes_on("full");
}

TEST_CASE("a file system that fills during a run costs only the data that does not fit",
          "[faults]") {
  if (run_subprocess({"unshare", "-m", "true"}).exit_code != 0) {
    WARN("no file systems can be mounted here: the disk is filled by a library alone");
    return;
  }
  // Each checkpoint takes some pages for its few KiB: the third does not fit.
  const Runs runs(saving_recipe(R"({"checkpoint": {"keep_last": 0}})"));
  const fs::path run = runs.path("small");
  const fs::path kept = runs.path("kept");
  fs::create_directories(run);
  const std::string script =
      "run=$1; kept=$2; shift 2\n"
      "mount -t tmpfs -o size=84k tmpfs \"$run\" || exit 99\n"
      "\"$@\" --run-dir \"$run/run\"; code=$?\n"
      "cp -a \"$run/run\" \"$kept\"; exit $code";
  std::vector<std::string> words = {
      "timeout", "--signal=KILL", "100", "unshare", "-m", "sh", "-c", script, "sh"};
  words.insert(words.end(), {run.string(), kept.string()});
  const std::vector<std::string> host = host_words(runs.recipe());
  words.insert(words.end(), host.begin(), host.end());
  const SubprocessResult result = run_subprocess(words);
  INFO(result.out << result.err);
  CHECK_THAT(result.out + result.err, contains_text("No space left on device"));
  CHECK(result.exit_code == 5);
  const uint64_t step = check_checkpoints(kept).step;
  CHECK((step == 2 || step == 4));
  runs.check_goes_on("kept");
}

TEST_CASE("a run folder that becomes read-only loses no checkpoint", "[faults]") {
  const Runs goes_on(saving_recipe());
  const std::map<std::string, std::string> faults = {{"TENON_FAULT_DO", "EROFS"},
                                                     {"TENON_FAULT_NTH", "60+"}};
  const End warned = goes_on.run("warned", faults);
  INFO(warned.text);
  CHECK(warned.code == 5);
  CHECK_THAT(warned.text, contains_text("Read-only file system"));
  goes_on.check_is_whole("warned");
  CHECK(check_checkpoints(goes_on.path("warned")).step == 2);
  goes_on.check_goes_on("warned");

  const Runs stops(saving_recipe(R"({"checkpoint": {"on_failure": "stop"}})"));
  const End stopped = stops.run("stopped", faults);
  INFO(stopped.text);
  CHECK(stopped.code == 5);
  CHECK_THAT(stopped.text, contains_text("[checkpoint.failed]"));
  CHECK(check_checkpoints(stops.path("stopped")).step == 2);
  stops.check_goes_on("stopped");

  // All of it: figures and the summary cannot be written either, which fails the run at its end.
  auto all = faults;
  all["TENON_FAULT_PATH"] = goes_on.path("all").string();
  all["TENON_FAULT_NTH"] = "90+";
  const End lost = goes_on.run("all", all);
  INFO(lost.text);
  CHECK(lost.code == 5);
  CHECK_THAT(lost.text, contains_text("[run.dir_unwritable]"));
  CHECK(check_checkpoints(goes_on.path("all")).step == 2);
  goes_on.check_goes_on("all");
}

TEST_CASE("a save that is due during another save waits for it", "[faults][.release]") {
  for (const std::string staging : {"copy", "stream"}) {
    INFO(staging);
    const Runs runs(saving_recipe(R"({"checkpoint": {"every_steps": 1, "keep_last": 0,
        "staging": ")" + staging + R"("}})"));
    const End end = runs.run("slow", {{"TENON_FAULT_DO", "delay:10"}});
    INFO(end.text);
    CHECK(end.code == 0);
    CHECK(summary_of(runs.path("slow"))["checkpoints"]["committed"] == 6);
    CHECK(summary_of(runs.path("slow"))["checkpoints"]["failed"] == 0);
    CHECK(names_in(runs.path("slow") / "checkpoints") ==
          names_in(runs.path("whole") / "checkpoints"));
    CHECK(check_checkpoints(runs.path("slow")).step == 6);
    runs.check_is_whole("slow");
  }
}

TEST_CASE("if the grace time ends before a save, no partial checkpoint is listed",
          "[faults][.release]") {
  const Runs runs(saving_recipe(R"({"checkpoint": {"grace_seconds": 0.5}})"));
  const std::string hook =
      R"(hooks=[{"type": "signal_at", "options": {"signals": [{"event": "after_step", "step": 5}]}}])";
  // The save of step 4 is slow, and that of the end would be, too; or all are.
  for (const std::string from : {"60+", "1+"}) {
    INFO(from);
    const std::string name = "from-" + from;
    const End end = runs.run(
        name, {{"TENON_FAULT_DO", "delay:150"}, {"TENON_FAULT_NTH", from}}, {"--set", hook});
    INFO(end.text);
    CHECK(end.code == 75);
    CHECK_THAT(end.text, contains_text("could not be saved"));
    const uint64_t step = from == "60+" ? 2 : 0;
    CHECK(check_checkpoints(runs.path(name)).step <= 4);
    CHECK(check_checkpoints(runs.path(name)).step >= step);
    runs.check_goes_on(name);
  }
}

// Kernels that oneDNN generates use the stack pointer as a general register, so that a handler on
// their thread would write its frame into the heap.
TEST_CASE("signals at any moment of products leave memory as it is", "[faults]") {
  const Runs runs(small_language_recipe(R"({
      "threads": {"compute": 2},
      "kernels": {"linear": "onednn"},
      "model": {"options": {"vocab_size": 2048, "hidden_size": 64, "intermediate_size": 128,
                            "num_hidden_layers": 1}},
      "data": {"batch_size": 4, "train": {"options": {"samples": 64, "length": 128}}},
      "train": {"steps": 8, "global_batch_size": 8},
      "checkpoint": {"at_end": false}})"));
  const auto run = runs.start("signalled");
  wait_until(
      [&] { return run->has_ended() || fs::exists(runs.path("signalled") / "metrics.jsonl"); });
  while (!run->has_ended()) {
    run->signal(SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int code = run->wait();
  INFO(run->out() << run->err());
  CHECK(code == 0);
  runs.check_is_whole("signalled");
}

TEST_CASE("SIGUSR1 saves at once, and the run continues", "[faults][ranks][.release]") {
  for (const std::vector<std::string>& ranks :
       {std::vector<std::string>{}, std::vector<std::string>{"--launch", "2"}}) {
    const Runs runs(saving_recipe(R"({"checkpoint": {"every_steps": 0}, "hooks": [
        {"type": "fail_at", "options": {"how": "sleep", "event": "after_step", "step": 2,
                                        "wait_seconds": 1.5}}]})"),
                    ranks);
    const auto run = runs.start("asked");
    wait_until([&] {
      return run->has_ended() ||
             file_text(runs.path("asked") / "metrics.jsonl").find("\"step\":1,") !=
                 std::string::npos;
    });
    run->signal(SIGUSR1);
    const int code = run->wait();
    INFO(run->out() << run->err());
    CHECK(code == 0);
    CHECK(summary_of(runs.path("asked"))["checkpoints"]["committed"] == 2);
    const auto names = names_in(runs.path("asked") / "checkpoints");
    REQUIRE(names.size() == 3);  // and `latest`
    CHECK(names[1] < "step-00000004");
    CHECK(check_checkpoints(runs.path("asked")).step == 6);
    runs.check_is_whole("asked");
  }
}

TEST_CASE("a clock that is set back does not change the newest checkpoint", "[faults]") {
  const Runs runs(saving_recipe(R"({"checkpoint": {"keep_last": 0}})"));
  // Each look at it is a day earlier.
  const std::map<std::string, std::string> back = {{"TENON_FAULT_CLOCK", "86400"}};
  CHECK(runs.run("back", back, {"--set", "train.exit_at_step=3"}).code == 75);
  CHECK(check_checkpoints(runs.path("back")).step == 3);
  CHECK(runs.run("back", back, {"--set", "train.exit_at_step=5"}).code == 75);
  CHECK(check_checkpoints(runs.path("back")).step == 5);
  CHECK(file_text(runs.path("back") / "checkpoints" / "latest").starts_with("step-00000005"));
  const auto time_of = [&](const std::string& name) {
    const auto index = runs.path("back") / "checkpoints" / name / "index.json";
    return nlohmann::json::parse(file_text(index))["facts"]["time"].get<std::string>();
  };
  const auto names = names_in(runs.path("back") / "checkpoints");
  REQUIRE(names.size() == 5);                    // of steps 2 to 5, and `latest`
  CHECK(time_of(names[1]) > time_of(names[2]));  // or the clock did not go back
  const End end = runs.run("back", back);
  INFO(end.text);
  CHECK(end.code == 0);
  CHECK(summary_of(runs.path("back"))["resumed"]["step"] == 5);
  runs.check_is_whole("back");
}

TEST_CASE("a clock that jumps does not affect the run", "[faults][ranks]") {
  // Saves by the clock are far away, and ranks wait for each other for a few seconds.
  const Runs runs(saving_recipe(R"({"checkpoint": {"keep_last": 0, "every_minutes": 1000}})"),
                  {"--launch", "2"});
  const auto jumping = [](const std::string& seconds) {
    return std::map<std::string, std::string>{{"TENON_FAULT_CLOCK", seconds}};
  };
  // A day on at each look, then a day back, and on again.
  const std::vector<std::string> parts = {"-86400", "86400", "-86400"};
  for (size_t i = 0; i < parts.size(); ++i) {
    INFO(parts[i]);
    const int step = 1 + 2 * static_cast<int>(i);
    const End end = runs.run(
        "jumps", jumping(parts[i]), {"--set", "train.exit_at_step=" + std::to_string(step)});
    INFO(end.text);
    REQUIRE(end.code == 75);
    CHECK(check_checkpoints(runs.path("jumps")).step == static_cast<uint64_t>(step));
  }
  const End end = runs.run("jumps", jumping("-86400"));
  INFO(end.text);
  CHECK(end.code == 0);
  CHECK(summary_of(runs.path("jumps"))["resumed"]["step"] == 5);
  runs.check_is_whole("jumps");
  // Of each stop, and of each second step: none by the clock.
  CHECK(names_in(runs.path("jumps") / "checkpoints").size() == 1 + 3 + 3);
}

TEST_CASE("after one rank is killed all ranks restart and resume from the newest checkpoint",
          "[faults][ranks][.release]") {
  const Runs runs(saving_recipe(R"({"train": {"steps": 16}, "checkpoint": {"retries": 2}})"),
                  {"--launch", "2"});
  for (const uint32_t victim : {0u, 1u}) {
    const std::string name = "rank-" + number_of(victim);
    INFO(name);
    const fs::path log = runs.path(name + ".calls");
    const auto run = runs.start(name,
                                {{"TENON_FAULT_DO", "delay:3"}, {"TENON_FAULT_LOG", log.string()}},
                                {"--max-restarts", "2"});
    const auto num_calls = [&] {
      std::ifstream in(log);
      return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
    };
    wait_until([&] { return run->has_ended() || num_calls() >= 100; });
    const pid_t process = run->rank(victim);
    REQUIRE(process > 0);
    ::kill(process, SIGKILL);
    const int code = run->wait();
    INFO(run->out() << run->err());
    CHECK(code == 0);
    CHECK_THAT(run->err(), contains_text("restarting all ranks (attempt 1 of 2)"));
    CHECK_THAT(run->out(), contains_text("resumed from "));
    CHECK(summary_of(runs.path(name))["resumed"]["step"] >= 2);
    CHECK(summary_of(runs.path(name))["outcome"] == "done");
    runs.check_is_whole(name);
    CHECK(check_checkpoints(runs.path(name)).step == 16);
    wait_until([&] { return run->processes().empty(); });
  }
}

TEST_CASE("ranks restart as often as allowed, and not after permanent errors",
          "[faults][ranks][.release]") {
  const Runs runs(saving_recipe(), {"--launch", "2"});
  const std::string kill =
      R"(hooks=[{"type": "fail_at", "options": {"how": "kill", "event": "after_step", "step": 5, "rank": 1}}])";
  const End lost = runs.run("lost", {}, {"--max-restarts", "2", "--set", kill});
  INFO(lost.text);
  CHECK(lost.code == 5);
  CHECK_THAT(lost.text, contains_text("attempt 2 of 2"));
  CHECK(check_checkpoints(runs.path("lost")).step >= 2);  // that of step 4 was being written
  CHECK(summary_of(runs.path("lost"))["outcome"] == "failed");
  runs.check_goes_on("lost");

  const std::string stop =
      R"(hooks=[{"type": "signal_at", "options": {"signals": [{"event": "after_step", "step": 3}]}}])";
  const End stopped = runs.run("stopped", {}, {"--max-restarts", "2", "--set", stop});
  INFO(stopped.text);
  CHECK(stopped.code == 75);
  CHECK(stopped.text.find("started again") == std::string::npos);
  runs.check_goes_on("stopped");
}

}  // namespace tenon
