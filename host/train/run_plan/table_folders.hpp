// SPDX-License-Identifier: Apache-2.0
//
// Folders for importing and exporting table rows, as requested on the command line. table_files.hpp
// reads and writes them.
#pragma once

#include <string>

namespace tenon {

struct TableFolders {
  std::string import_from = {};  // "" for none
  std::string export_to = {};    // "" for none
  bool has_slots = false;        // also export optimizer state, counts and steps

  bool operator==(const TableFolders&) const = default;
};

}  // namespace tenon
