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
  std::vector<std::string> shown;  // text of the first samples of data/train
};

// `num_shown`: number of samples of data/train to decode; 0 for none.
//
// Errors   those of the datasets; data.cannot_show if samples are to be shown, and the data has no
//          tokens with labels
std::vector<ProcessedSet> process_data(const Recipe& recipe,
                                       PluginRegistry& plugins,
                                       int64_t num_shown);

}  // namespace tenon
