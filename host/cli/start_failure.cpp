// SPDX-License-Identifier: Apache-2.0
#include "host/cli/start_failure.hpp"

#include "host/error/exit_code.hpp"

#include <cerrno>  // program_invocation_short_name
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

void watch_start(int, char**, char**) {
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
