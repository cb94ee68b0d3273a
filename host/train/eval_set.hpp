// SPDX-License-Identifier: Apache-2.0
//
// A dataset to evaluate on.
#pragma once

#include "host/data/data_stream.hpp"
#include "host/recipe/recipe.hpp"

#include <string>

namespace tenon {

struct EvalSet {
  std::string prefix;  // of its metric names
  DataStream* data = nullptr;
};

// Returns true if a window of the set is opened with each training window.
inline bool has_paired_windows(const EvalSet& set,
                               const EvalRecipe& recipe,
                               DataStream& train_data) {
  return recipe.with_window != WithWindow::kNever && set.data->source().info().has_windows &&
         train_data.source().info().has_windows;
}

}  // namespace tenon
