// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/started_run.hpp"

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/local_storage.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/recipes/host_run.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string proc_text(pid_t process, const char* name) {
  return file_text("/proc/" + std::to_string(process) + "/" + name);
}

}  // namespace

std::vector<std::string> host_words(const fs::path& recipe) {
  std::vector<std::string> words = host_command();
  words.insert(words.begin() + 1, {"--recipe", recipe.string()});
  return words;
}

StartedRun::StartedRun(const fs::path& recipe,
                       const fs::path& run_dir,
                       const std::vector<std::string>& arguments,
                       const std::map<std::string, std::string>& environment)
    : run_dir_(run_dir) {
  std::vector<std::string> words = host_words(recipe);
  words.insert(words.end(), {"--run-dir", run_dir.string()});
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  const std::string out = run_dir.string() + ".out";
  const std::string err = run_dir.string() + ".err";
  std::fflush(nullptr);  // or the child tells it too
  process_ = ::fork();
  REQUIRE(process_ >= 0);
  if (process_ == 0) {
    ::setsid();  // with a process group of its own
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const auto& [name, value] : environment) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    if (std::freopen(out.c_str(), "w", stdout) != nullptr &&
        std::freopen(err.c_str(), "w", stderr) != nullptr) {
      ::execv(pointers[0], pointers.data());
    }
    ::_exit(127);
  }
  session_ = process_;
}

StartedRun::~StartedRun() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::kill(-process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
}

std::vector<pid_t> StartedRun::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), process).ec == std::errc() &&
        proc_text(process, "cmdline").find(std::string(1, '\0') + run_dir_.string() + '\0') !=
            std::string::npos) {
      found.push_back(process);
    }
  }
  return found;
}

std::vector<pid_t> StartedRun::session() const {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), process).ec == std::errc() &&
        ::getsid(process) == session_ &&
        // Who has ended, and is not asked for it by the system's first process, is not there.
        proc_text(process, "stat").find(") Z ") == std::string::npos) {
      found.push_back(process);
    }
  }
  return found;
}

pid_t StartedRun::rank(uint32_t rank) const {
  const std::string variable = std::string(1, '\0') + "RANK=" + std::to_string(rank) + '\0';
  for (const pid_t process : processes()) {
    if (process != process_ &&
        (std::string(1, '\0') + proc_text(process, "environ")).find(variable) !=
            std::string::npos) {
      return process;
    }
  }
  return 0;
}

bool StartedRun::has_ended() const {
  siginfo_t info{};
  return process_ <= 0 ||
         (::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid != 0);
}

void StartedRun::signal(int number) const {
  ::kill(process_, number);
}

int StartedRun::wait() {
  if (process_ > 0) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    while (!has_ended()) {
      if (std::chrono::steady_clock::now() > limit) {
        ::kill(-process_, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return status_;
}

std::string StartedRun::out() const {
  return file_text(run_dir_.string() + ".out");
}

std::string StartedRun::err() const {
  return file_text(run_dir_.string() + ".err");
}

nlohmann::json summary_of(const fs::path& run_dir) {
  return nlohmann::json::parse(file_text(run_dir / "summary.json"));
}

NewestCheckpoint check_checkpoints(const fs::path& run_dir) {
  const fs::path root = run_dir / "checkpoints";
  const auto storage = std::make_shared<LocalStorage>(root.string());
  NewestCheckpoint newest;
  const std::vector<std::string> names = storage->list();
  for (const std::string& name : names) {
    INFO(root.string() << "/" << name);
    const CheckpointReader reader(storage, name);
    CHECK_NOTHROW(reader.verify());
    newest = {reader.index().metadata.step, name};
  }
  if (fs::exists(root / "latest")) {
    const std::string latest = file_text(root / "latest");
    INFO("latest is " << latest);
    REQUIRE_FALSE(latest.empty());
    CHECK(std::ranges::count(names, latest.substr(0, latest.size() - 1)) == 1);
  }
  return newest;
}

}  // namespace tenon
