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
#include "host/train/run/run_request.hpp"

namespace tenon {

struct RunContext {
  const Recipe& recipe;
  const RunRequest& request;
  const RunPlatform& platform;
  World& world;
  RankGroups& ranks;
  ComponentFactory& factory;
};

}  // namespace tenon
