// SPDX-License-Identifier: Apache-2.0
//
// The exit statuses of the program, as scripts and schedulers see them.
// Invariant: a number never changes its meaning from one release to the next.

#pragma once

namespace tenon {

enum class ExitCode : int {
  kDone = 0,       // the horizon was reached, or a hook ended the run early
  kDifferent = 1,  // two traces that were compared differ
  kUsage = 2,      // the command line; no run folder exists
  kRecipe = 3,     // the recipe, unknown types included; no run folder exists
  kPlugin = 4,     // a plugin, before the first step
  kFailed = 5,     // anything that failed after the first step began
  kNonFinite = 6,  // the policy on updates that are not finite ended the run
  kStopped = 75,   // stopped early on request; worth starting again (EX_TEMPFAIL of sysexits.h)
};

}  // namespace tenon
