// SPDX-License-Identifier: Apache-2.0
//
// What all parts of one run have in common. Nothing is owned here.
// Threads: [main].
#pragma once

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
  ComponentFactory& factory;
};

}  // namespace tenon
