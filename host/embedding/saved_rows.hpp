// SPDX-License-Identifier: Apache-2.0
//
// Rows of a saved table, put into a table that may have rows of its own: those of the same ids
// become the saved ones, all others stay. Another dtype of values is converted. Not for going on
// with a run, which gives a table the same bits (Table::load).
// Threads: as Table.
#pragma once

#include "host/embedding/row_file.hpp"
#include "host/embedding/table.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace tenon {

// Why the rows below `prefix` cannot be put into a table of this spec: "rows of 8, and here of 16";
// "" where they can. With RowParts::kAll each slot of the spec must be there as well.
// Errors  state.missing_entry where there is no table below `prefix`
std::string misfit_of_saved_rows(const TableSpec& spec,
                                 const StateTree& tree,
                                 const std::string& prefix,
                                 RowParts parts);

// Puts the rows in whose ids `is_mine` chooses, and says how many. New rows are admitted, have the
// saved counts and are as if updated in `step`. With RowParts::kValues slots of new rows begin
// anew, those of others stay.
// Errors  table.bad_state where they do not fit; table.full; those of reading
int64_t take_saved_rows(Table& table,
                        const StateTree& tree,
                        const std::string& prefix,
                        RowParts parts,
                        int64_t step,
                        const std::function<bool(int64_t id)>& is_mine);

}  // namespace tenon
