// SPDX-License-Identifier: Apache-2.0
//
// Command line options for weights in files of other programs.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

// --export: from a checkpoint.
struct WeightsExport {
  std::string format = {};                // "hf", "torch", "peft"
  bool merges = false;                    // write effective parameters, for "hf" and "torch"
  std::string to = {};                    // a folder, or with "torch" a file
  std::string run_dir = {};               // exports its newest checkpoint,
  std::string from = {};                  // unless this names a checkpoint
  std::string dtype = {};                 // "bf16", ...; "": as saved
  std::uint64_t file_bytes = 5000000000;  // maximum size of one file of a folder

  bool operator==(const WeightsExport&) const = default;
};

// --import: the initial parameters of a run.
struct WeightsImportRequest {
  std::string format = {};  // "hf"; "" if nothing is imported
  std::string from = {};    // a folder

  bool operator==(const WeightsImportRequest&) const = default;
};

}  // namespace tenon
