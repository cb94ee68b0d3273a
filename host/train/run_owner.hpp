// SPDX-License-Identifier: Apache-2.0
//
// The owner of a run, as the loop sees it: joins the ranks, keeps the run folder, and decides how a
// failed run ends.
// Threads: the train thread.
#pragma once

#include "host/error/error.hpp"
#include "host/train/run_state/outcome.hpp"

#include <string>

namespace tenon {

class RunOwner {
 public:
  virtual ~RunOwner() = default;

  // Called as soon as an error ends the run on this rank, before on_error is fired: other ranks
  // wait for collectives that this rank no longer joins. Returns how the run ends.
  virtual FailedEnd fail(const Error& error) = 0;
  // Called after the first step of this process.
  virtual void end_first_step() {}
  // Returns why the run folder is no longer that of this run; "" if it is.
  virtual std::string folder_problem() { return ""; }

 protected:
  RunOwner() = default;
  RunOwner(const RunOwner&) = default;
  RunOwner& operator=(const RunOwner&) = default;
};

}  // namespace tenon
