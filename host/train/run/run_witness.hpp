// SPDX-License-Identifier: Apache-2.0
//
// A second process that outlives a run which ends without a word: killed, out of memory, crashed in
// a way that no handler survives, or ended by a plugin. It then writes the run's summary.json, so
// that a run with a folder always has one. It waits, and uses no processor time.
// Why not the run itself: a process cannot report its own SIGKILL, and a signal handler cannot
// write JSON.
// Threads: created and destroyed by the main thread; dismiss() by any.
#pragma once

#include <string>

namespace tenon {

class RunWitness {
 public:
  // Starts the process. Call it before the process has threads. If the system lacks pidfd_open or a
  // process cannot be started, there is no witness, and the object does nothing.
  RunWitness();
  RunWitness(const RunWitness&) = delete;
  RunWitness& operator=(const RunWitness&) = delete;
  // Ends the process; it writes nothing.
  ~RunWitness();

  // Hands over the summary of a run that fails now: the text of `file`, to be completed with how
  // the process ended. A later call replaces it.
  void expect(const std::string& file, const std::string& summary);
  // The run writes its own summary from now on.
  void dismiss();

 private:
  int to_witness_ = -1;  // -1: no witness
  int pid_ = 0;
};

}  // namespace tenon
