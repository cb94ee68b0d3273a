// SPDX-License-Identifier: Apache-2.0
//
// What every part of a plan depends on: the recipe, who creates its components, and for which rank
// and device. A run has those of its process; `--plan` has those of another machine.
// Threads: [main].
#pragma once

#include "host/data/rank_sampler.hpp"
#include "host/device/gpu.hpp"
#include "host/device/precision.hpp"
#include "host/distributed/ranks/rank_role.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/train/components/component_factory.hpp"

namespace tenon {

struct PlanContext {
  const Recipe& recipe;       // borrowed
  ComponentFactory& factory;  // borrowed
  const RankRole& role;       // borrowed
  PrecisionPolicy precision;
  ExecBase exec;       // of all calls
  Gpu* gpu = nullptr;  // null on the CPU

  // This rank's share of all samples.
  DataRank samples() const { return {.rank = role.samples().index, .size = role.samples().count}; }
  DataRank positions() const {
    return {.rank = role.positions().index, .size = role.positions().count};
  }
};

}  // namespace tenon
