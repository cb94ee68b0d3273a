// SPDX-License-Identifier: Apache-2.0
//
// Imports and exports rows of a run's tables (--import-tables, --export-tables), and computes the
// initial row that --table prints. Not for checkpoints. row_file.hpp has the file format.
// Threads: [main], before the first step and after the last step.
#pragma once

#include "host/embedding/row_file.hpp"
#include "host/embedding/table_set.hpp"
#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon {

// Reads the rows of each table from its files in the folder. A table without files starts empty, as
// the log says. `is_own` selects the ids of this rank; null selects all.
//
// Errors  table.bad_file if the folder has no file of any table, or a file is missing or cannot be
//         read; table.full
void import_tables(TableSet& tables,
                   const std::string& folder,
                   const std::function<bool(int64_t)>& is_own);

// Makes the folder and writes the rows of this rank.
//
// Errors  table.bad_file
void export_tables(const TableSet& tables,
                   const std::string& folder,
                   RowParts parts,
                   int64_t rank,
                   int64_t num_ranks);

// Returns the initial values of a row of the recipe's table: "vector", and each optimizer slot as
// "slot.NAME". Trains nothing.
//
// Errors  table.unknown if the model has no such table; those of check_training
std::vector<RowColumn> first_row(const Recipe& recipe,
                                 PluginRegistry& registry,
                                 const std::string& table,
                                 int64_t id);

}  // namespace tenon
