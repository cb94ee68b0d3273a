// SPDX-License-Identifier: Apache-2.0
//
// Opens the datasets of a recipe without training, so that datasets with a cache process their
// data. Threads: [main].
#pragma once

#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct ProcessedSet {
  std::string place;               // "data/train"
  std::optional<int64_t> samples;  // nothing for streams and for datasets with windows
};

// Errors   those of the datasets
std::vector<ProcessedSet> process_data(const Recipe& recipe, PluginRegistry& plugins);

}  // namespace tenon
