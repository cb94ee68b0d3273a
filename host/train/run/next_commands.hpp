// SPDX-License-Identifier: Apache-2.0
//
// The commands that a run with a checkpoint prints at its end: how to export the model, and what to
// try next. The text is for people only and may change.
// Threads: any.
#pragma once

#include "host/recipe/recipe.hpp"
#include "host/train/run_plan/run_request.hpp"
#include "host/train/run_state/outcome.hpp"

#include <string>

namespace tenon {

// Returns two lines, "export: ..." and "next: ...", without a final line break:
//   after a stop       the same command again, which resumes
//   after N steps      the same command for 2 N steps, if the recipe counts steps
//   otherwise          --inspect of the checkpoint
// `export_format` is "hf", "peft" or "torch". A run that was stopped before its first step has only
// the line "next: ...". Empty if the run ended without a step, saved no checkpoint, failed, or does
// not know how its program was called.
std::string next_commands(const Recipe& recipe,
                          const RunRequest& request,
                          const Outcome& outcome,
                          const std::string& run_dir,
                          const std::string& export_format);

}  // namespace tenon
