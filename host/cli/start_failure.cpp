// SPDX-License-Identifier: Apache-2.0
#include "host/cli/start_failure.hpp"

#include "host/error/exit_code.hpp"

#include <cerrno>  // program_invocation_short_name
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <unistd.h>

namespace tenon {
namespace {

constinit std::terminate_handler usual_handler = nullptr;

void write_error(std::string_view text) {
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

// Allocates no memory.
[[maybe_unused]] [[noreturn]] void end_start() {
  try {
    if (std::current_exception() != nullptr) {
      throw;
    }
  } catch (const std::bad_alloc&) {
    write_error({program_invocation_short_name, std::strlen(program_invocation_short_name)});
    write_error(
        ": [run.out_of_memory] no memory is left to load libtorch; raise ulimit -v, or free memory "
        "on the machine\n");
    ::_exit(static_cast<int>(ExitCode::kFailed));
  } catch (...) {
  }
  if (usual_handler != nullptr) {
    usual_handler();
  }
  std::abort();
}

// Not under sanitizers, which are not ready yet.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void end_first_process(int signal) {
  constexpr int kBySignal = 128;  // as shells report it
  ::_exit(kBySignal + signal);
}

// SIGUSR1 asks a run for a checkpoint: it must not end a program that is about to become one. The
// first process of a container is not ended by a signal that it does not handle.
void set_up_signals() {
  std::signal(SIGUSR1, SIG_IGN);
  if (::getpid() == 1) {
    for (const int signal : {SIGTERM, SIGINT}) {
      std::signal(signal, end_first_process);
    }
  }
}

// Libraries look for themselves relative to the current folder when they are initialized, and end
// the process if there is none. The C library does not know the name of the program yet, hence
// `program`.
void check_current_folder(const char* program) {
  char path[4096];
  if (::getcwd(path, sizeof(path)) != nullptr || errno != ENOENT) {
    return;
  }
  const ssize_t size = ::readlink("/proc/self/cwd", path, sizeof(path));
  const std::string_view name(program == nullptr ? "host" : program);
  write_error(name.substr(name.rfind('/') + 1));
  write_error(": [usage.no_current_folder] the current folder was removed");
  if (size > 0) {
    write_error(": ");
    write_error({path, static_cast<std::size_t>(size)});
  }
  write_error("; change to a folder that exists\n");
  ::_exit(static_cast<int>(ExitCode::kUsage));
}

void watch_start(int, char** words, char**) {
  set_up_signals();
  check_current_folder(words[0]);
  usual_handler = std::set_terminate(end_start);
}

using Initializer = void (*)(int, char**, char**);
// Entries of .preinit_array run before the initializers of all libraries.
__attribute__((section(".preinit_array"), used)) const Initializer watch = watch_start;

#endif

}  // namespace

void end_start_failures() noexcept {
  if (usual_handler != nullptr) {
    std::set_terminate(usual_handler);
  }
}

}  // namespace tenon
