// SPDX-License-Identifier: Apache-2.0
//
// Replaces exit() and _exit() of the C library in the whole process: the linker looks up a symbol
// in the program first. A plugin that calls _exit() would otherwise end a run with status 0 and
// without a word, and exit() would destroy objects that other threads use. Not under sanitizers,
// which replace _exit() themselves.

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include "host/process/crash_report.hpp"

#include <dlfcn.h>

extern "C" {

[[noreturn]] __attribute__((visibility("default"))) void exit(int status) {
  tenon::report_plugin_exit();
  using Exit = void (*)(int);
  static const auto next = reinterpret_cast<Exit>(::dlsym(RTLD_NEXT, "exit"));
  next(status);
  __builtin_unreachable();
}

[[noreturn]] __attribute__((visibility("default"))) void _exit(int status) {
  tenon::exit_at_once(status);
}

[[noreturn]] __attribute__((visibility("default"))) void _Exit(int status) {
  tenon::exit_at_once(status);
}

}  // extern "C"

#endif
