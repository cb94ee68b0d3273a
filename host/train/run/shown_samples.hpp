// SPDX-License-Identifier: Apache-2.0
//
// Samples as text, with marks around what a run trains on.
// Threads: [main].
#pragma once

#include "host/data/data_source.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// Decodes the first `count` samples of a source, or all if there are fewer. Text whose tokens have
// labels is in [[ ]]. Each part of a sample that attention does not leave has its own lines.
//
// Errors   data.cannot_show if the source is no map, or has not the i64 fields `input_ids` and
//          `labels` [B, T], or the recipe has no tokenizer; errors of the plugins
std::vector<std::string> shown_samples(const Recipe& recipe,
                                       ComponentFactory& factory,
                                       DataSource& source,
                                       int64_t count);

}  // namespace tenon
