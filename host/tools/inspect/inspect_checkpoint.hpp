// SPDX-License-Identifier: Apache-2.0
//
// The output of --inspect, --verify and --diff: the content of a checkpoint, the result of checksum
// verification, or a comparison of two checkpoints. A path is the folder of a checkpoint, or a run
// folder, which stands for its newest checkpoint.
#pragma once

#include <string>

namespace tenon {

enum class InspectForm { kText, kJson };

// Returns metadata, parts and tensors, as text or as the JSON index. Does not read the values of
// tensors. The text ends in a line break.
// Errors  storage.not_found; checkpoint.damaged, checkpoint.foreign, checkpoint.too_new
std::string inspected_text(const std::string& path, InspectForm form);

// Reads and verifies a complete checkpoint. Returns one line with the numbers of tensors, bytes and
// files.
// Errors  as above; checkpoint.damaged with the file and the entry
std::string verified_text(const std::string& path);

struct CheckpointComparison {
  bool is_equal = false;  // all entries of the state are equal
  std::string text = {};  // ends in a line break
};

// Compares metadata, recipes, plugins and entries.
// Errors  as above
CheckpointComparison compared_checkpoints(const std::string& path_a, const std::string& path_b);

}  // namespace tenon
