// SPDX-License-Identifier: Apache-2.0
//
// A run that stops at checkpoints and continues on other meshes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/ranks/finished_run.hpp"

namespace tenon {

// Part of a run: the number of ranks, the patch of the recipe that sets their mesh, and the step
// after which the run stops.
struct Leg {
  uint32_t num_ranks;
  std::string patch;
  int last_step;
};

// Runs a recipe leg by leg, in one run directory. The last leg runs to the last step.
FinishedRun relay(const nlohmann::json& recipe, const std::vector<Leg>& legs);

}  // namespace tenon
