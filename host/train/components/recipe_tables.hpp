// SPDX-License-Identifier: Apache-2.0
//
// Plans the tables of a run: the tables that its model looks up, with the recipe's settings. One
// table of the recipe may store several of the model's tables. A pattern sets defaults for the
// tables that it matches. Allocates nothing.
#pragma once

#include "host/embedding/table_set.hpp"
#include "host/model/graph.hpp"
#include "host/recipe/recipe.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tenon {

struct PlannedTable {
  TableSpec spec;  // without the optimizer's slots
  ComponentUse optimizer;
  double lr = 0;  // learning rate with lr_factor, before the schedule
  std::optional<double> clip_row_norm;
};

struct TablePlan {
  std::vector<PlannedTable> tables;
  std::vector<LookupUse> lookups;
  std::vector<uint32_t> values;  // by lookup: the value of the graph that it produces
};

// Errors  table.unknown for a table of the recipe that the model does not look up; table.mismatch
//         for different sizes or initializers of one table; table.no_optimizer; table.bad_spec;
//         optim.no_lr
TablePlan plan_tables(const Recipe& recipe, const ModelGraph& graph);

}  // namespace tenon
