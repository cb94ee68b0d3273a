// SPDX-License-Identifier: Apache-2.0
//
// Where a run's rows come from and go to, as the command line says; table_files.hpp does it.
#pragma once

#include <string>

namespace tenon {

struct TableFolders {
  std::string import_from = {};  // "" for none
  std::string export_to = {};    // "" for none
  bool has_slots = false;        // what optimizers keep is exported too

  bool operator==(const TableFolders&) const = default;
};

}  // namespace tenon
