// SPDX-License-Identifier: Apache-2.0
//
// Parameters and tables that the recipe excludes from checkpoints (checkpoint.exclude), and the
// entries of a run's state that belong to them.
// Threads  any
#pragma once

#include "host/checkpoint/checkpoint_index.hpp"
#include "host/model/graph.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <string>
#include <vector>

namespace tenon {

// Returns the parameters and buffers of the model, and the tables, that the patterns match. A match
// of a tied parameter excludes the parameter that it is tied to.
// Errors  checkpoint.unmatched_exclude if a pattern matches nothing
Excluded excluded_of(const std::vector<std::string>& patterns,
                     const ModelGraph& graph,
                     const std::vector<std::string>& tables);

// Returns a test for the entries of excluded parameters and tables: values, optimizer state, and
// their copy in the best evaluation.
StateTree::NameTest entries_of(const Excluded& excluded);

// Returns "12 parameters (embed.weight, a, b, c, ...) and 1 table (users)"; "" for none.
std::string excluded_text(const Excluded& excluded);

}  // namespace tenon
