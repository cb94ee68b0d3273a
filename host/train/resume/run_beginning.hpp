// SPDX-License-Identifier: Apache-2.0
//
// What the command line gave a run to begin with, recorded in its folder before any work: a run
// that is lost before its first checkpoint must begin with the same again, never with initial
// values.
// Invariant: the record is written atomically, before recipe.json makes the folder a run folder.
// Threads: [main].
#pragma once

#include <string>

namespace tenon {

// Absolute paths; "" for what was not given.
struct RunBeginning {
  std::string import_from = {};   // --import hf DIR
  std::string resumed_from = {};  // --resume PATH
  std::string tables_from = {};   // --import-tables DIR

  bool is_empty() const {
    return import_from.empty() && resumed_from.empty() && tables_from.empty();
  }
  // Returns the options, as on the command line: "--resume /runs/a".
  std::string options() const;

  bool operator==(const RunBeginning&) const = default;
};

// The name of the record in a run folder.
inline constexpr char kBeginningFile[] = "beginning.json";

// Returns the record of a run folder; empty if there is none.
// Errors  run.dir_unwritable if the record cannot be read
RunBeginning beginning_of(const std::string& run_dir);

// Replaces the record durably; an empty one removes the file.
// Errors  run.dir_unwritable
void write_beginning(const std::string& run_dir, const RunBeginning& beginning);

}  // namespace tenon
