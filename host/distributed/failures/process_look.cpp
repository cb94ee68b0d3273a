// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/process_look.hpp"

#include "host/text/formatted.hpp"

#include <fstream>
#include <sstream>
#include <unistd.h>

namespace tenon {
namespace {

struct Stat {
  char state = 0;  // as in ps; 0 if the process does not exist
  uint64_t started = 0;
};

// /proc/PID/stat: the name, in parentheses, may hold any text; the state and numbers follow it.
Stat read_stat(int64_t pid) {
  constexpr int kFieldsBefore = 18;  // between the state and the start time
  std::ifstream in(formatted("/proc/{}/stat", pid));
  std::ostringstream text;
  text << in.rdbuf();
  const std::string line = text.str();
  const size_t bracket = line.rfind(')');
  if (bracket == std::string::npos) {
    return {};
  }
  std::istringstream fields(line.substr(bracket + 1));
  Stat stat;
  fields >> stat.state;
  std::string skipped;
  for (int i = 0; i < kFieldsBefore; ++i) {
    fields >> skipped;
  }
  fields >> stat.started;
  return stat;
}

std::string process_space() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64] = "";
  const ssize_t length = ::readlink("/proc/self/ns/pid", space, sizeof(space));
  return boot.empty() || length <= 0 ? ""
                                     : boot + " " + std::string(space, static_cast<size_t>(length));
}

}  // namespace

ProcessName own_process() {
  const int64_t pid = ::getpid();
  return {pid, read_stat(pid).started, process_space()};
}

ProcessState look_at(const ProcessName& process) {
  static const std::string here = process_space();
  if (here.empty() || process.space != here || process.started == 0) {
    return ProcessState::kUnknown;
  }
  const Stat stat = read_stat(process.pid);
  if (stat.started != process.started) {
    return ProcessState::kGone;
  }
  switch (stat.state) {
    case 'Z':  // its parent has not waited for it yet
    case 'X':
    case 'x':
      return ProcessState::kGone;
    case 'T':
    case 't':
      return ProcessState::kStopped;
    case 'D':
      return ProcessState::kWaiting;
    default:
      return ProcessState::kThere;
  }
}

const char* silence_text(ProcessState state) {
  switch (state) {
    case ProcessState::kUnknown:
      return "it has exited, is stopped or is disconnected";
    case ProcessState::kGone:
      return "its process has exited";
    case ProcessState::kStopped:
      return "its process exists, but is stopped (SIGSTOP or a debugger)";
    case ProcessState::kWaiting:
      return "its process exists, but waits in the kernel for a disk or the network";
    case ProcessState::kThere:
      return "its process exists, but is disconnected from the other ranks or gets no CPU time";
  }
  return "";
}

}  // namespace tenon
