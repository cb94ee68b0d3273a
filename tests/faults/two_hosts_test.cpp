// SPDX-License-Identifier: Apache-2.0
//
// Two runs in one folder at once. The first one stands still in a hook until it is killed.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// The host, as a child. It is killed with this object, and by itself after a minute.
class StartedHost {
 public:
  StartedHost(const fs::path& recipe, const fs::path& run_dir, const fs::path& said) {
    const std::vector<std::string> words = {"timeout",
                                            "-s",
                                            "KILL",
                                            "--foreground",
                                            "60",
                                            host_program().string(),
                                            "--recipe",
                                            recipe.string(),
                                            "--plugin-dir",
                                            plugin_dir().string(),
                                            "--plugin-dir",
                                            test_plugin_dir().string(),
                                            "--run-dir",
                                            run_dir.string(),
                                            "--resume",
                                            "none"};
    std::vector<char*> arguments;
    for (const std::string& word : words) {
      arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    std::fflush(nullptr);  // or the child tells it too
    process_ = ::fork();
    REQUIRE(process_ >= 0);
    if (process_ == 0) {
      ::setpgid(0, 0);
      if (std::freopen(said.c_str(), "w", stderr) != nullptr &&
          std::freopen("/dev/null", "w", stdout) != nullptr) {
        ::execvp(arguments[0], arguments.data());
      }
      ::_exit(127);
    }
    ::setpgid(process_, process_);
  }
  ~StartedHost() { kill(); }
  StartedHost(const StartedHost&) = delete;
  StartedHost& operator=(const StartedHost&) = delete;

  // kill -9 of all of it.
  void kill() {
    if (process_ > 0) {
      ::kill(-process_, SIGKILL);
      wait();
    }
  }

  // The exit status.
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, process_, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
  }

 private:
  pid_t process_ = -1;
};

// Each file with its text.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    files[entry.path().string()] = entry.is_regular_file() ? file_text(entry.path()) : "";
  }
  return files;
}

// It saves nothing: a run that was lost before it saved would start over in the folder.
std::string standing_recipe() {
  auto recipe = nlohmann::json::parse(small_recipe(R"({"plugins": {"timeout_seconds": null},
    "hooks": [{"type": "fail_at", "options": {"how": "hang", "event": "after_step", "step": 2}}]})"));
  recipe["checkpoint"] = nullptr;
  return recipe.dump();
}

template <class Condition>
void wait_until(Condition condition) {
  while (!condition()) {
    ::usleep(10000);
  }
}

}  // namespace

TEST_CASE("of two hosts in one run folder the second is rejected, and a kill frees the folder",
          "[faults]") {
  const ScratchFolder scratch;
  const fs::path recipe = scratch.write("recipe.json", standing_recipe());
  const fs::path run = scratch.path() / "run";
  const fs::path said_first = scratch.path() / "first.txt";
  const fs::path said_second = scratch.path() / "second.txt";
  StartedHost first(recipe, run, said_first);
  wait_until([&] { return fs::exists(run / "metrics.jsonl") || first.has_ended(); });
  INFO(file_text(said_first));
  REQUIRE_FALSE(first.has_ended());

  const auto before = contents(run);
  StartedHost second(recipe, run, said_second);
  CHECK(second.wait() == 2);
  const std::string said = file_text(said_second);
  CHECK_THAT(said, contains_text("[run.dir_in_use]"));
  CHECK_THAT(said, contains_text(run.string() + " is in use by process "));
  auto after = contents(run);
  // What the first one writes itself meanwhile grows at its end.
  for (const auto& [file, text] : before) {
    INFO(file);
    CHECK(after[file].substr(0, text.size()) == text);
  }
  CHECK_FALSE(first.has_ended());

  first.kill();
  StartedHost third(recipe, run, said_second);
  CHECK(third.wait() == 2);
  CHECK_THAT(file_text(said_second), contains_text("[run.dir_exists]"));  // nobody is there now
  CHECK_FALSE(fs::exists(run / ".lock"));
}

TEST_CASE("of two hosts that start at once in one folder exactly one runs", "[faults]") {
  const ScratchFolder scratch;
  const fs::path recipe = scratch.write("recipe.json", standing_recipe());
  const fs::path run = scratch.path() / "run";
  const fs::path said[] = {scratch.path() / "first.txt", scratch.path() / "second.txt"};
  StartedHost hosts[] = {{recipe, run, said[0]}, {recipe, run, said[1]}};
  wait_until([&] { return hosts[0].has_ended() || hosts[1].has_ended(); });
  const int ended = hosts[0].has_ended() ? 0 : 1;
  CHECK(hosts[ended].wait() == 2);
  CHECK_THAT(file_text(said[ended]), contains_text("[run.dir_in_use]"));
  wait_until([&] { return fs::exists(run / "metrics.jsonl") || hosts[1 - ended].has_ended(); });
  INFO(file_text(said[1 - ended]));
  CHECK_FALSE(hosts[1 - ended].has_ended());
}

TEST_CASE("a run that ends in order leaves no lock, nor does one that is no run", "[faults]") {
  const HostRun run(small_recipe());
  CHECK(run.result().exit_code == 0);
  CHECK_FALSE(fs::exists(run.run_dir() / ".lock"));
  const HostRun failed(small_recipe(R"({"hooks": [{"type": "fail_at", "options":
      {"how": "throw", "event": "start", "step": 0}}]})"));
  INFO(failed.result().err);
  CHECK(failed.result().exit_code != 0);
  CHECK_FALSE(fs::exists(failed.run_dir() / ".lock"));
}

}  // namespace tenon
