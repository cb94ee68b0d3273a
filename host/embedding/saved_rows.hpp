// SPDX-License-Identifier: Apache-2.0
//
// Loads rows of a saved table into a table that may already have rows. Rows of the same ids are
// overwritten; all others stay. Values of another dtype are converted. Not for resuming a run:
// Table::load restores the same bits.
// Threads: as for Table.
#pragma once

#include "host/embedding/row_file.hpp"
#include "host/embedding/table.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace tenon {

// Returns why the rows below `prefix` cannot be loaded into a table of this spec: "rows of 8, and
// here of 16"; "" if they can. With RowParts::kAll, each slot of the spec must also be saved.
// Errors  state.missing_entry if there is no table below `prefix`
std::string misfit_of_saved_rows(const TableSpec& spec,
                                 const StateTree& tree,
                                 const std::string& prefix,
                                 RowParts parts);

// Loads the rows whose ids `is_mine` selects after step `step` of the run, and returns their
// number. New rows are admitted, and keep their counts and ages: a table that was empty continues
// the steps of the saved table (Table::continue_steps). With RowParts::kAll, so do existing rows.
// With RowParts::kValues, new rows get initial slots; the slots, counts and ages of existing rows
// stay. Ids that wait for admission keep their occurrences.
// Errors  table.bad_state if the rows do not fit; table.full; errors of reading the state
int64_t take_saved_rows(Table& table,
                        const StateTree& tree,
                        const std::string& prefix,
                        RowParts parts,
                        int64_t step,
                        const std::function<bool(int64_t id)>& is_mine);

}  // namespace tenon
