// SPDX-License-Identifier: Apache-2.0
//
// The exit statuses of the program, as scripts and schedulers see them.
// Invariant: a number never changes its meaning from one release to the next.

#pragma once

namespace tenon {

enum class ExitCode : int {
  kDone = 0,       // the run reached its length, or a hook ended it early
  kDifferent = 1,  // --diff or --trace-diff found a difference
  kUsage = 2,      // invalid command line; no run folder was created
  kRecipe = 3,     // invalid recipe, unknown types included; no run folder was created
  kPlugin = 4,     // plugin error before the first step
  kFailed = 5,     // failure after the first step started
  kNonFinite = 6,  // the policy for non-finite updates ended the run
  kStopped = 75,   // stopped early on request; start again to resume (EX_TEMPFAIL of sysexits.h)
};

}  // namespace tenon
