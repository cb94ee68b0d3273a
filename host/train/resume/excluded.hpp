// SPDX-License-Identifier: Apache-2.0
//
// Parameters and tables that a checkpoint is without, as the recipe asks (checkpoint.exclude):
// which ones they are, and which entries of a run's state belong to them.
// Threads  any
#pragma once

#include "host/checkpoint/checkpoint_index.hpp"
#include "host/model/graph.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <string>
#include <vector>

namespace tenon {

// What the patterns match: parameters and buffers of the model, and tables. Of tied parameters the
// one that the others are tied to stands for all.
// Errors  checkpoint.unmatched_exclude: a pattern without effect
Excluded excluded_of(const std::vector<std::string>& patterns,
                     const ModelGraph& graph,
                     const std::vector<std::string>& tables);

// True for entries that belong to what is left out: its values, its slots, and what is kept of it
// as the best.
StateTree::NameTest entries_of(const Excluded& excluded);

// "12 parameters (embed.weight, a, b, c, ...) and 1 table (users)"; "" for none.
std::string excluded_text(const Excluded& excluded);

}  // namespace tenon
