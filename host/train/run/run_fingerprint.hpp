// SPDX-License-Identifier: Apache-2.0
//
// The properties that must be equal on all ranks before a run starts (start_agreement.hpp): the
// recipe, the bytes of the loaded plugins, the program, libtorch, and the type of device. The
// number of compute threads may differ between machines.
#pragma once

#include "host/distributed/collectives/start_agreement.hpp"
#include "host/recipe/recipe.hpp"

#include <c10/core/Device.h>

#include <vector>

namespace tenon {

// Returns the fingerprint. Call after the plugins are loaded.
std::vector<Fact> run_fingerprint(const Recipe& recipe, c10::Device device);

}  // namespace tenon
