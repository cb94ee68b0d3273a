// SPDX-License-Identifier: Apache-2.0
//
// State that exists once per process is changed by host/process alone: a run asks its Process for
// it (host/process/process.hpp). Here is each exception, with the reason why it does not go through
// that object.
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace fs = std::filesystem;

namespace {

struct Exception {
  std::set<std::string> calls;
  std::string why;
};

// Functions that change the state of a process, or start and end one.
const std::vector<std::string>& changing_calls() {
  static const std::vector<std::string> kCalls = {// signals and timers
                                                  "signal",
                                                  "sigaction",
                                                  "sigprocmask",
                                                  "pthread_sigmask",
                                                  "sigaltstack",
                                                  "alarm",
                                                  "setitimer",
                                                  "timer_create",
                                                  "set_terminate",
                                                  // the end
                                                  "exit",
                                                  "_exit",
                                                  "_Exit",
                                                  "quick_exit",
                                                  "atexit",
                                                  "at_quick_exit",
                                                  "terminate",
                                                  // the environment, streams, limits
                                                  "setenv",
                                                  "unsetenv",
                                                  "putenv",
                                                  "clearenv",
                                                  "setlocale",
                                                  "dup2",
                                                  "dup3",
                                                  "umask",
                                                  "chdir",
                                                  "current_path",
                                                  "setrlimit",
                                                  "prctl",
                                                  "setpriority",
                                                  "nice",
                                                  "sched_setaffinity",
                                                  "mallopt",
                                                  "fesetenv",
                                                  "fesetround",
                                                  "set_flush_denormal",
                                                  // other processes
                                                  "fork",
                                                  "_Fork",
                                                  "vfork",
                                                  "posix_spawn",
                                                  // settings of libtorch
                                                  "set_num_threads",
                                                  "set_num_interop_threads",
                                                  "omp_set_num_threads",
                                                  "mkl_set_num_threads",
                                                  "set_default_dtype",
                                                  "set_default_tensor_type",
                                                  "setDeterministicAlgorithms",
                                                  "setDeterministicMkldnn",
                                                  "setDeterministicFillUninitializedMemory",
                                                  "setDeterministicCuDNN",
                                                  "setBenchmarkCuDNN",
                                                  "setAllowTF32CuBLAS",
                                                  "setAllowTF32CuDNN",
                                                  "setFloat32MatmulPrecision",
                                                  "setUserEnabledMkldnn",
                                                  "SetCPUAllocator",
                                                  "manual_seed",
                                                  // the host's own, which host/process calls
                                                  "set_compute_threads",
                                                  "set_deterministic",
                                                  "set_deterministic_flags",
                                                  "choose_reproducible_math",
                                                  "choose_reproducible_gpu_math",
                                                  "keep_freed_memory",
                                                  "use_block_cache",
                                                  "set_kernel_policy",
                                                  "set_kernel_answer_keeper",
                                                  "use_staging_pins",
                                                  "set_stop_requested",
                                                  "report_crashes",
                                                  "stop_reporting_crashes",
                                                  "end_process"};
  return kCalls;
}

const std::map<std::string, Exception>& exceptions() {
  static const std::map<std::string, Exception> kExceptions = {
      // ---- setters that only host/process calls ----
      {"host/device/block_cache.cpp", {{"SetCPUAllocator", "use_block_cache"}, "defines a setter"}},
      {"host/device/device.cpp",
       {{"choose_reproducible_gpu_math",
         "choose_reproducible_math",
         "set_compute_threads",
         "set_deterministic",
         "set_deterministic_flags",
         "set_num_interop_threads",
         "set_num_threads",
         "setDeterministicAlgorithms",
         "setDeterministicCuDNN",
         "setDeterministicFillUninitializedMemory",
         "setDeterministicMkldnn",
         "setenv"},
        "defines setters"}},
      {"host/device/device.hpp",
       {{"choose_reproducible_gpu_math",
         "choose_reproducible_math",
         "set_compute_threads",
         "set_deterministic",
         "set_deterministic_flags"},
        "declares setters"}},
      {"host/device/block_cache.hpp", {{"use_block_cache"}, "declares a setter"}},
      {"host/device/host_memory.cpp", {{"keep_freed_memory", "mallopt"}, "defines a setter"}},
      {"host/device/host_memory.hpp", {{"keep_freed_memory"}, "declares a setter"}},
      {"host/kernels/kernel_choice.cpp",
       {{"set_kernel_answer_keeper", "set_kernel_policy"}, "defines setters"}},
      {"host/kernels/kernel_choice.hpp",
       {{"set_kernel_answer_keeper", "set_kernel_policy"}, "declares setters"}},
      {"host/tensor/staging_memory.cpp", {{"use_staging_pins"}, "defines a setter"}},
      {"host/tensor/staging_memory.hpp", {{"use_staging_pins"}, "declares a setter"}},
      {"host/tensor/stop_flag.cpp", {{"set_stop_requested"}, "defines a setter"}},
      {"host/tensor/stop_flag.hpp", {{"set_stop_requested"}, "declares a setter"}},
      // ---- the program, before a run or in place of one ----
      {"host/cli/exit_symbols.cpp",
       {{"_Exit", "_exit", "exit"}, "defines the exit functions of the program"}},
      {"host/cli/start_failure.cpp",
       {{"_exit", "set_terminate", "signal"},
        "runs before main(), while libraries are initialized"}},
      {"host/terminal/print_output.hpp",
       {{"signal"}, "ends an action whose output nobody reads, as other programs do"}},
      {"host/error/crash_page.cpp",
       {{"unsetenv"}, "takes a variable of the launcher, for the report of crashes"}},
      {"host/trust/secrets/run_secret.cpp",
       {{"unsetenv"}, "hides the secret from plugins and children; main() calls it"}},
      // ---- the launcher, and the processes that it starts ----
      {"host/distributed/launch/launch.cpp",
       {{"sigaction"}, "the launcher forwards signals to ranks, and restores the handlers"}},
      {"host/distributed/launch/rank_process.cpp",
       {{"_exit",
         "dup2",
         "fork",
         "prctl",
         "pthread_sigmask",
         "sched_setaffinity",
         "sigaction",
         "signal",
         "sigprocmask"},
        "sets up a rank between fork() and exec(), and the title of a rank that --launch started"}},
      {"host/distributed/launch/rank_output.cpp",
       {{"dup2"},
        "a rank of --launch moves its output to a file; other programs are no such rank"}},
      // ---- what a run needs once, whoever asks first ----
      {"host/distributed/collectives/gloo_backend.cpp",
       {{"setenv", "setpriority"},
        "a variable that only c10d reads, before its first group; the priority of Gloo's thread"}},
      {"host/distributed/ranks/open_files.cpp",
       {{"setrlimit"}, "raises the soft limit of open files before ranks connect"}},
      {"host/device/cuda/cuda_gpu.cpp",
       {{"setAllowTF32CuDNN"},
        "the GPU module rejects TF32 when it opens a GPU; no run allows it"}},
      // ---- scopes that restore what they change ----
      {"host/device/machine_memory.cpp",
       {{"setrlimit"}, "MemoryLimit restores the limit; checks and plans use it"}},
      {"host/plugin/component_identity.cpp",
       {{"set_num_threads"}, "restores what a call of a plugin has changed"}},
      {"host/plugin/process_settings.cpp",
       {{"current_path", "fesetenv", "set_num_threads", "setlocale", "sigaction", "umask"},
        "reads settings, and restores what a call of a plugin has changed"}},
      // ---- processes that the host forks to look at a plugin ----
      {"host/plugin/plugin_trial.cpp", {{"terminate"}, "ends a forked process"}},
      {"host/trust/child/watched_child.cpp",
       {{"_exit",
         "dup2",
         "fork",
         "prctl",
         "setrlimit",
         "sigaction",
         "sigaltstack",
         "signal",
         "sigprocmask"},
        "sets up a forked process"}},
      {"host/trust/vet.cpp", {{"_exit"}, "ends a forked process"}},
      {"host/tools/check/default_dtype.hpp",
       {{"set_default_dtype"}, "restores the dtype after each call of a check"}},
      {"host/tools/check/load_checks.cpp", {{"dup2"}, "collects what a plugin prints"}},
      {"host/tools/check/option_checks.cpp", {{"setrlimit"}, "limits a forked process"}},
      {"host/tools/check/recipe_checks.cpp",
       {{"_exit", "dup2", "fork", "prctl", "setenv"}, "sets up a run in a forked process"}},
      {"host/tools/check/run_checks.cpp", {{"terminate"}, "ends a forked process"}},
      {"host/tools/check/subject.cpp", {{"terminate"}, "ends a forked process"}}};
  return kExceptions;
}

// The end of the quoted text that begins at `at`.
size_t end_of_text(const std::string& code, size_t at) {
  const char mark = code[at++];
  while (at < code.size() && code[at] != mark && code[at] != '\n') {
    at += code[at] == '\\' ? 2 : 1;
  }
  return at + 1;
}

// The text of a source without comments and text in quotes.
std::string code_of(const std::string& text) {
  std::string code;
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, 2, "//") == 0) {
      at = text.find('\n', at);
    } else if (text.compare(at, 2, "/*") == 0) {
      at = text.find("*/", at);
      at = at == std::string::npos ? at : at + 2;
    } else if (text[at] == '"') {
      at = end_of_text(text, at);
    } else {
      code += text[at++];
    }
  }
  return code;
}

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// True if the parenthesis at `at` encloses one name: current_path(failure) reads the folder.
bool encloses_a_name(const std::string& code, size_t at) {
  size_t end = at + 1;
  while (end < code.size() && is_of_name(code[end])) {
    ++end;
  }
  return end < code.size() && code[end] == ')';
}

// The functions of `calls` that the code names in front of a parenthesis. Members count only if
// they are setters, such as those of libtorch's context.
std::set<std::string> calls_in(const std::string& code, const std::set<std::string>& calls) {
  std::set<std::string> found;
  for (size_t end = code.find('('); end != std::string::npos; end = code.find('(', end + 1)) {
    size_t begin = end;
    while (begin > 0 && is_of_name(code[begin - 1])) {
      --begin;
    }
    const std::string name = code.substr(begin, end - begin);
    const bool is_member = (begin > 0 && code[begin - 1] == '.') ||
                           (begin > 1 && code.compare(begin - 2, 2, "->") == 0);
    const bool is_read = name == "current_path" && encloses_a_name(code, end);
    if (calls.contains(name) && !is_read && (!is_member || name.starts_with("set"))) {
      found.insert(name);
    }
  }
  return found;
}

// The code of each source of the host outside of host/process, by file.
std::map<std::string, std::string> code_of_host() {
  std::map<std::string, std::string> code;
  for (const auto& entry : fs::recursive_directory_iterator(tenon::source_dir() / "host")) {
    const std::string ending = entry.path().extension().string();
    const std::string file = fs::relative(entry.path(), tenon::source_dir()).string();
    if ((ending == ".cpp" || ending == ".hpp" || ending == ".cu") &&
        !file.starts_with("host/process/")) {
      std::ifstream in(entry.path());
      REQUIRE(in.good());
      code[file] = code_of({std::istreambuf_iterator<char>(in), {}});
    }
  }
  return code;
}

std::map<std::string, std::set<std::string>> calls_of_host() {
  const std::set<std::string> calls(changing_calls().begin(), changing_calls().end());
  std::map<std::string, std::set<std::string>> found;
  for (const auto& [file, code] : code_of_host()) {
    if (std::set<std::string> here = calls_in(code, calls); !here.empty()) {
      found.emplace(file, std::move(here));
    }
  }
  return found;
}

}  // namespace

TEST_CASE("calls are found in code, and not in comments, texts and members", "[tree]") {
  const std::set<std::string> calls = {"_exit", "signal", "setDeterministicMkldnn"};
  const auto found = [&calls](const std::string& code) { return calls_in(code_of(code), calls); };
  CHECK(found("  ::_exit(1);\n  std::signal(2, f);") == std::set<std::string>{"_exit", "signal"});
  CHECK(found("context.setDeterministicMkldnn(on);").size() == 1);
  CHECK(
      found("// _exit(1)\n\"signal(\\\"signal(\" /* signal(\n) */ outcome.signal(); end_signal(3)")
          .empty());
  CHECK(calls_in("fs::current_path(failure)", {"current_path"}).empty());
  CHECK(calls_in("fs::current_path(folder_, failed)", {"current_path"}).size() == 1);
}

TEST_CASE("only host/process changes what a process has once, with these exceptions", "[tree]") {
  const std::map<std::string, std::set<std::string>> found = calls_of_host();
  for (const auto& [file, calls] : found) {
    const auto known = exceptions().find(file);
    for (const std::string& call : calls) {
      INFO(file << " calls " << call << "(), which changes the whole process");
      CHECK((known != exceptions().end() && known->second.calls.contains(call)));
    }
  }
  for (const auto& [file, exception] : exceptions()) {
    const auto here = found.find(file);
    for (const std::string& call : exception.calls) {
      INFO(file << " no longer calls " << call << "(): remove the exception");
      CHECK((here != found.end() && here->second.contains(call)));
    }
    CHECK_FALSE(exception.why.empty());
  }
}

TEST_CASE("main alone makes the object of the process", "[tree]") {
  // "Process process;" and "make_unique<SignalWatch>(...)", but not "Process& process".
  static const std::regex kMade(
      R"(\b(Process|SignalWatch|ComputeSettings)( \w+[;({]|[({]|>[({])|)"
      R"((optional|make_unique|make_shared)<(tenon::)?(Process|SignalWatch|ComputeSettings)>)");
  CHECK(std::regex_search("  tenon::Process process;", kMade));
  CHECK(std::regex_search("std::make_unique<ComputeSettings>()", kMade));
  CHECK(std::regex_search("const SignalWatch signals(second);", kMade));
  CHECK_FALSE(std::regex_search("void end(Process& process);", kMade));
  CHECK_FALSE(std::regex_search("std::unique_ptr<SignalWatch> signals;", kMade));
  std::set<std::string> makers;
  for (const auto& [file, code] : code_of_host()) {
    std::istringstream lines(code);
    for (std::string line; std::getline(lines, line);) {
      const bool names_one = line.find("Process") != std::string::npos ||
                             line.find("SignalWatch") != std::string::npos ||
                             line.find("ComputeSettings") != std::string::npos;
      if (names_one && std::regex_search(line, kMade)) {
        makers.insert(file);
      }
    }
  }
  CHECK(makers == std::set<std::string>{"host/cli/main.cpp"});
}
