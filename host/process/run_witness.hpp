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

  // The summary of a run that fails now.
  struct Summary {
    std::string file;
    std::string text;   // to be completed with how the process ended
    std::string lock;   // the file that names the run which uses the folder
    std::string owner;  // its line for this run
  };
  // Hands over the summary. A later call replaces it. The process may be stopped and continue much
  // later, so it writes only while no other run has used the folder.
  void expect(const Summary& summary);
  // The run writes its own summary from now on.
  void dismiss();

 private:
  int to_witness_ = -1;  // -1: no witness
  int pid_ = 0;
};

}  // namespace tenon
