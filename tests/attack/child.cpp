// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/child.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sstream>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string text_of_proc(pid_t process, const char* name) {
  std::ifstream in("/proc/" + std::to_string(process) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// True if the process exists and is not a zombie.
bool is_alive(pid_t process) {
  const std::string stat = text_of_proc(process, "stat");
  return !stat.empty() && stat.find(") Z ") == std::string::npos &&
         stat.find(") X ") == std::string::npos;
}

std::string shell_word(const std::string& word) {
  return word.find_first_of(" '\"$\\*?[]{}()<>|&;#~") == std::string::npos && !word.empty()
             ? word
             : "'" + word + "'";
}

}  // namespace

std::vector<std::string> attacked_host(const std::vector<std::string>& words) {
  std::vector<std::string> all = {host_program().string(),
                                  "--plugin-dir",
                                  plugin_dir().string(),
                                  "--plugin-dir",
                                  test_plugin_dir().string()};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

Child::Child(const std::vector<std::string>& words, fs::path log, const ChildOptions& options)
    : log_(std::move(log)), memory_limit_(options.memory_limit) {
  std::vector<char*> pointers;
  for (const std::string& word : words) {
    pointers.push_back(const_cast<char*>(word.c_str()));
    command_ += (command_.empty() ? "" : " ") + shell_word(word);
  }
  pointers.push_back(nullptr);
  const int out = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  session_ = out >= 0 ? ::fork() : -1;
  if (session_ < 0) {
    throw std::system_error(errno, std::generic_category(), "cannot start " + words.front());
  }
  if (session_ == 0) {
    ::setsid();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const auto& [name, value] : options.environment) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    const int null = ::open("/dev/null", O_RDONLY);
    if (::dup2(null, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(out, 2) >= 0) {
      ::execv(pointers[0], pointers.data());
    }
    ::_exit(127);
  }
  ::close(out);
}

Child::~Child() {
  kill_session();
  if (!is_waited_) {
    ::waitpid(session_, nullptr, 0);
  }
}

void Child::kill_session() const {
  for (const pid_t process : session()) {
    ::kill(process, SIGKILL);
  }
}

bool Child::has_ended() const {
  siginfo_t info{};
  return is_waited_ ||
         (::waitid(P_PID, static_cast<id_t>(session_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid != 0);
}

std::vector<pid_t> Child::session() const {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), process).ec == std::errc() &&
        ::getsid(process) == session_ && is_alive(process)) {
      found.push_back(process);
    }
  }
  return found;
}

pid_t Child::rank(int rank) const {
  const std::string variable = std::string(1, '\0') + "RANK=" + std::to_string(rank) + '\0';
  for (const pid_t process : session()) {
    if (process != session_ &&
        (std::string(1, '\0') + text_of_proc(process, "environ")).find(variable) !=
            std::string::npos) {
      return process;
    }
  }
  return 0;
}

void Child::check_memory() {
  if (!memory_limit_.has_value()) {
    return;
  }
  std::istringstream fields(text_of_proc(session_, "statm"));
  std::uint64_t pages = 0;
  fields >> pages >> pages;
  const std::uint64_t bytes = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (bytes > *memory_limit_) {
    peak_bytes_ = std::max(peak_bytes_, bytes);
    kill_session();
  }
}

bool Child::ends_within(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  for (int i = 0; !has_ended(); ++i) {
    if (Clock::now() > end) {
      return false;
    }
    if (i % 10 == 0) {
      check_memory();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::optional<int> Child::wait(std::chrono::milliseconds limit) {
  const bool is_late = !ends_within(limit);
  if (is_late) {
    kill_session();
  }
  if (!is_waited_) {
    int status = 0;
    rusage usage{};
    ::wait4(session_, &status, 0, &usage);
    is_waited_ = true;
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    peak_bytes_ = std::max(peak_bytes_, static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
  }
  return is_late ? std::nullopt : std::optional(status_);
}

bool Child::wait_for_session(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  while (!session().empty()) {
    if (Clock::now() > end) {
      kill_session();
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string Child::log() const {
  return file_text(log_);
}

}  // namespace tenon
