// SPDX-License-Identifier: Apache-2.0
//
// Rows of a run's tables to files and from them: --export-tables, --import-tables, and what --table
// prints of one id. Not for checkpoints. The files are those of row_file.hpp.
// Threads: [main], before the first step and after the last.
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

// Gives each table the rows that the folder has of it; one without a file starts anew, which the
// log says. `is_own` chooses the ids of this rank; null for all.
//
// Errors  table.bad_file: there are files of none of the tables, and what read_rows says;
//         table.full
void import_tables(TableSet& tables,
                   const std::string& folder,
                   const std::function<bool(int64_t)>& is_own);

// Writes the rows that this rank has, and makes the folder.
//
// Errors  table.bad_file
void export_tables(const TableSet& tables,
                   const std::string& folder,
                   RowParts parts,
                   int64_t rank,
                   int64_t num_ranks);

// What a row of the recipe's table holds when its id is first seen: "vector", and each of the
// optimizer's slots as "slot.NAME". Nothing is trained.
//
// Errors  table.unknown: the model has no such table; as check_training's
std::vector<RowColumn> first_row(const Recipe& recipe,
                                 PluginRegistry& registry,
                                 const std::string& table,
                                 int64_t id);

}  // namespace tenon
