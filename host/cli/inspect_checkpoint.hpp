// SPDX-License-Identifier: Apache-2.0
//
// --inspect, --verify and --diff: prints the content of a checkpoint, verifies its checksums, or
// compares two checkpoints. A path is the folder of a checkpoint, or a run folder, which means its
// newest checkpoint.
#pragma once

#include <string>

namespace tenon {

enum class InspectForm { kText, kJson };

// Metadata, parts and tensors, as text or as the JSON index. Does not read tensors. Ends in a line
// break.
// Errors  storage.not_found; checkpoint.damaged, checkpoint.foreign, checkpoint.too_new
std::string inspected_text(const std::string& path, InspectForm form);

// Reads and verifies the complete checkpoint. Returns one line with the result.
// Errors  as above; checkpoint.damaged with the file and the entry
std::string verified_text(const std::string& path);

struct CheckpointComparison {
  bool is_equal = false;  // in all entries of the state
  std::string text = {};  // ends in a line break
};

// Differences in metadata, recipes, plugins and entries.
// Errors  as above
CheckpointComparison compared_checkpoints(const std::string& path_a, const std::string& path_b);

}  // namespace tenon
