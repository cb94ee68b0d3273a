// SPDX-License-Identifier: Apache-2.0
//
// What another process of this machine looks like from outside, for a rank that says nothing any
// more: whether it is gone, stopped, or there. Nothing is sent to it.
// Invariant: a process is never taken for another one that has its number.
// Threads: any.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

// By which others find a process.
struct ProcessName {
  int64_t pid = 0;
  uint64_t started = 0;  // as the kernel counts; 0 if it does not say
  std::string space;     // of process numbers: a machine since it was started, and a container
};

ProcessName own_process();

enum class ProcessState {
  kUnknown,  // it is of another machine or container
  kGone,     // it has ended
  kStopped,  // by a signal, or a debugger
  kWaiting,  // in the kernel, for a disk or a network, and cannot be interrupted
  kThere,    // it runs, or could
};

ProcessState look_at(const ProcessName& process);

// What that is to those who hear nothing of it: "its process has exited".
const char* silence_text(ProcessState state);

}  // namespace tenon
