// SPDX-License-Identifier: Apache-2.0
//
// Which tables a run has: those that its model looks up, with what the recipe says of them. A table
// of the recipe may take in several of the model's; a pattern says what the tables it matches do
// not say themselves. Nothing is allocated here.
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
  TableSpec spec;  // without what the optimizer adds
  ComponentUse optimizer;
  double lr = 0;
  std::optional<double> clip_row_norm;
};

struct TablePlan {
  std::vector<PlannedTable> tables;
  std::vector<LookupUse> lookups;
  std::vector<uint32_t> values;  // by lookup: the value of the graph that it makes
};

// Errors  table.unknown: a table of the recipe that the model does not look up; table.mismatch: two
//         sides that say different sizes or initializers of one table; table.no_optimizer;
//         table.bad_spec; optim.no_lr
TablePlan plan_tables(const Recipe& recipe, const ModelGraph& graph);

}  // namespace tenon
