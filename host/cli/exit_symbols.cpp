// SPDX-License-Identifier: Apache-2.0
//
// Replaces _exit() of the C library in the whole process: the linker looks up a symbol in the
// program first. A plugin that calls it would otherwise end a run with status 0 and without a word.
// Not under sanitizers, which replace it themselves.

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include "host/plugin/crash_report.hpp"

extern "C" {

[[noreturn]] __attribute__((visibility("default"))) void _exit(int status) {
  tenon::exit_at_once(status);
}

[[noreturn]] __attribute__((visibility("default"))) void _Exit(int status) {
  tenon::exit_at_once(status);
}

}  // extern "C"

#endif
