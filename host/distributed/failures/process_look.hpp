// SPDX-License-Identifier: Apache-2.0
//
// Observes another process of this machine, for a rank that no longer reports: whether the process
// has ended, is stopped, or exists. Nothing is sent to it.
// Invariant: a process is never confused with another one that has the same number.
// Threads: any.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

// Identifies a process to other processes.
struct ProcessName {
  int64_t pid = 0;
  uint64_t started = 0;  // start time in the kernel's clock ticks; 0 if unknown
  std::string space;     // namespace of `pid`: boot id of the machine, and container
};

ProcessName own_process();

enum class ProcessState {
  kUnknown,  // cannot be observed: for example, on another machine or in another container
  kGone,     // it has ended
  kStopped,  // by a signal, or a debugger
  kWaiting,  // uninterruptible in the kernel, for a disk or a network
  kThere,    // it runs, or is ready to run
};

ProcessState look_at(const ProcessName& process);

// Describes `state` for a rank that no longer reports: "its process has exited".
const char* silence_text(ProcessState state);

}  // namespace tenon
