// SPDX-License-Identifier: Apache-2.0
//
// What the command line asks for of weights in the files of other programs.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

// --export: from a checkpoint.
struct WeightsExport {
  std::string format = {};                // "hf", "torch"
  std::string to = {};                    // a folder, or with "torch" a file
  std::string run_dir = {};               // whose newest checkpoint is taken,
  std::string from = {};                  // unless one is named here
  std::string dtype = {};                 // "bf16", ...; "" as trained
  std::uint64_t file_bytes = 5000000000;  // that a file of a folder has at most

  bool operator==(const WeightsExport&) const = default;
};

// --import: the first parameters of a run.
struct WeightsImportRequest {
  std::string format = {};  // "hf"; "" if nothing is imported
  std::string from = {};    // a folder

  bool operator==(const WeightsImportRequest&) const = default;
};

}  // namespace tenon
