// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz_run.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>

// A leak is told at the end. A case that wants more memory than any text of its size can need ends
// at once, before it ends the machine.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "handle_abort=1:max_allocation_size_mb=512:hard_rss_limit_mb=3000:"
         "quarantine_size_mb=32:malloc_context_size=8:detect_stack_use_after_return=0";
}
extern "C" const char* __ubsan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  // By an abort, which the address sanitizer sees: its runtime and this one know nothing of each
  // other.
  return "print_stacktrace=1:halt_on_error=1:abort_on_error=1";
}
#endif

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxMessage = std::size_t{1} << 20;

// The case that is being run, for whoever ends the program. The buffers are filled before the case
// starts, since a handler may neither allocate nor format.
struct RunningCase {
  std::atomic<const char*> data = nullptr;
  std::atomic<std::size_t> size = 0;
  char file[4096] = {};
  char advice[8192] = {};
  std::atomic<int> seconds = 0;
  int max_seconds = 0;
};
RunningCase running;

void write_all(int descriptor, const char* data, std::size_t size) noexcept {
  while (size > 0) {
    const ssize_t n = ::write(descriptor, data, size);
    if (n <= 0) {
      return;
    }
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

// Keeps the case and says so. Safe in a signal handler.
void keep_case() noexcept {
  const char* const data = running.data.exchange(nullptr);
  if (data == nullptr) {
    return;
  }
  const int file = ::open(running.file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file >= 0) {
    write_all(file, data, running.size);
    ::close(file);
  }
  write_all(STDERR_FILENO, running.advice, std::strlen(running.advice));
}

void on_tick(int) noexcept {
  if (++running.seconds > running.max_seconds && running.data != nullptr) {
    constexpr char kText[] = "the case takes too long\n";
    write_all(STDERR_FILENO, kText, sizeof(kText) - 1);
    keep_case();
    ::_exit(1);
  }
}

[[noreturn]] void usage(const std::string& name, const std::string& why) {
  std::cerr << why << "\nusage: " << name << " [--cases N] [--seed S] [--case K] [--input FILE]\n";
  std::exit(2);
}

struct Requests {
  std::uint64_t num_cases = 10'000;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> only;
  std::string input;
};

Requests read_arguments(const std::string& name, int argc, char** argv) {
  Requests requests;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (i + 1 == argc) {
      usage(name, option + " needs a value, or is unknown");
    }
    const std::string value = argv[++i];
    if (option == "--input") {
      requests.input = value;
      continue;
    }
    char* end = nullptr;
    const std::uint64_t number = std::strtoull(value.c_str(), &end, 10);
    if (value.empty() || *end != '\0') {
      usage(name, value + " is no number");
    }
    if (option == "--cases") {
      requests.num_cases = number;
    } else if (option == "--seed") {
      requests.seed = number;
    } else if (option == "--case") {
      requests.only = number;
    } else {
      usage(name, option + " is unknown");
    }
  }
  return requests;
}

// Cases of one seed have little in common.
Mutator mutator_of(std::uint64_t seed, std::uint64_t number) {
  Mutator first(seed);
  return Mutator(first.number() ^ (number * 0xd1342543de82ef95U));
}

class Run {
 public:
  Run(const FuzzTarget& target, std::string program)
      : target_(target), program_(std::move(program)) {
    folder_ = fs::absolute(fs::path(program_)).parent_path() / "fuzz-findings";
    fs::create_directories(folder_);
    running.max_seconds = target.max_seconds;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_set_death_callback(keep_case);
#endif
    struct sigaction action {};
    action.sa_handler = on_tick;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGPROF, &action, nullptr);
    itimerval every_second{{1, 0}, {1, 0}};
    ::setitimer(ITIMER_PROF, &every_second, nullptr);
  }

  // Runs one case; `origin` is how to run it again. False if it failed.
  bool judge(const std::string& input, const std::string& label, const std::string& origin) {
    const std::string file = (folder_ / (target_.name + "-" + label)).string();
    const std::string advice =
        "The case is kept in " + file + "\nTo run it again: " + program_ + " " + origin + "\n";
    std::strncpy(running.file, file.c_str(), sizeof(running.file) - 1);
    std::strncpy(running.advice, advice.c_str(), sizeof(running.advice) - 1);
    running.seconds = 0;
    running.size = input.size();
    running.data = input.data();
    const auto start = std::chrono::steady_clock::now();
    try {
      outcome_ = target_.judge(input);
    } catch (const std::exception& problem) {
      std::cerr << target_.name << ": " << problem.what() << "\n";
      keep_case();
      return false;
    }
    running.data = nullptr;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    ++counts_[outcome_];
    if (took.count() > slowest_) {
      slowest_ = took.count();
      slowest_label_ = label;
    }
    return true;
  }

  const std::string& outcome() const {
    return outcome_;
  }

  void print_summary(const Requests& requests) const {
    std::cout << target_.name << ": " << requests.num_cases << " cases of seed " << requests.seed
              << "; the slowest, " << slowest_label_ << ", took " << slowest_ * 1e3 << " ms\n";
    std::vector<std::pair<std::uint64_t, std::string>> sorted;
    for (const auto& [outcome, count] : counts_) {
      sorted.emplace_back(count, outcome);
    }
    std::ranges::sort(sorted, std::greater<>());
    for (const auto& [count, outcome] : sorted) {
      std::cout << "  " << count << " " << outcome << "\n";
    }
  }

  bool accepted_enough(std::uint64_t num_cases) const {
    const auto found = counts_.find(kFuzzAccepted);
    const double accepted = found != counts_.end() ? static_cast<double>(found->second) : 0.0;
    if (accepted >= target_.least_accepted * static_cast<double>(num_cases)) {
      return true;
    }
    std::cerr << target_.name << ": too few cases were accepted for the rest to go deep\n";
    return false;
  }

 private:
  const FuzzTarget& target_;
  std::string program_;
  fs::path folder_;
  std::string outcome_;
  std::map<std::string, std::uint64_t> counts_;
  double slowest_ = 0;
  std::string slowest_label_;
};

}  // namespace

int run_fuzz(int argc, char** argv, const FuzzTarget& target) {
  const Requests requests = read_arguments(target.name, argc, argv);
  Run run(target, argv[0]);
  if (!requests.input.empty()) {
    std::ifstream file(requests.input, std::ios::binary);
    if (!file) {
      usage(target.name, "cannot read " + requests.input);
    }
    const std::string input{std::istreambuf_iterator<char>(file), {}};
    if (!run.judge(input, "again", "--input " + requests.input)) {
      return 1;
    }
    std::cout << run.outcome() << "\n";
    return 0;
  }
  const std::uint64_t first = requests.only.value_or(0);
  const std::uint64_t last = requests.only ? first + 1 : requests.num_cases;
  for (std::uint64_t i = first; i < last; ++i) {
    Mutator mutator = mutator_of(requests.seed, i);
    const std::string input = target.make(mutator);
    const std::string numbers = std::to_string(requests.seed) + "-" + std::to_string(i);
    if (!run.judge(input,
                   numbers,
                   "--seed " + std::to_string(requests.seed) + " --case " + std::to_string(i))) {
      return 1;
    }
    if ((i + 1) % 100'000 == 0) {
      std::cout << target.name << ": " << i + 1 << " cases" << std::endl;
    }
  }
  if (requests.only) {
    std::cout << run.outcome() << "\n";
    return 0;
  }
  run.print_summary(requests);
  return run.accepted_enough(requests.num_cases) ? 0 : 1;
}

void check_fuzz_message(const std::string& id, const std::string& message) {
  if (message.empty()) {
    throw FuzzFinding("an error with the id " + id + " has no message");
  }
  if (message.size() > kMaxMessage) {
    throw FuzzFinding("an error with the id " + id + " has a message of " +
                      std::to_string(message.size()) + " bytes");
  }
  try {
    (void)nlohmann::json(id + message).dump();
  } catch (const nlohmann::json::type_error& problem) {
    throw FuzzFinding("the message of " + id + " is no UTF-8: " + problem.what());
  }
}

}  // namespace tenon
