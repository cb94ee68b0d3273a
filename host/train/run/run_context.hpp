// SPDX-License-Identifier: Apache-2.0
//
// References to the objects that all parts of one run share. Owns nothing.
// Threads: [main].
#pragma once

#include "host/distributed/collectives/rank_groups.hpp"
#include "host/distributed/collectives/world.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/run/run_platform.hpp"
#include "host/train/run_plan/plan_context.hpp"
#include "host/train/run_plan/run_request.hpp"

namespace tenon {

struct RunContext {
  const Recipe& recipe;
  const RunRequest& request;
  const RunPlatform& platform;
  World& world;
  RankGroups& ranks;
  ComponentFactory& factory;

  // For plans of this process's part of the run.
  PlanContext for_plans() const {
    return {.recipe = recipe,
            .factory = factory,
            .role = platform.role(),
            .precision = platform.precision(),
            .exec = platform.exec(),
            .gpu = platform.gpu()};
  }
};

}  // namespace tenon
