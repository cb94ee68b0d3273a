// SPDX-License-Identifier: Apache-2.0
//
// --inspect, --verify and --diff: what a checkpoint has in it, whether it is what was written, and
// what two of them have that is not the same. A checkpoint is named by its folder, or by that of a
// run, whose newest one is meant.
#pragma once

#include <string>

namespace tenon {

enum class InspectForm { kText, kJson };

// Facts, parts and tensors, as text or as its index. Tensors are not read. Ends in a line break.
// Errors  storage.not_found; checkpoint.damaged, checkpoint.foreign, checkpoint.too_new
std::string inspected_text(const std::string& path, InspectForm form);

// Reads all of it. One line that says what was found to be sound.
// Errors  as above; checkpoint.damaged with the file and the entry
std::string verified_text(const std::string& path);

struct CheckpointComparison {
  bool is_equal = false;  // in each entry of the state
  std::string text = {};  // ends in a line break
};

// What differs in facts, recipes, plugins and each entry.
// Errors  as above
CheckpointComparison compared_checkpoints(const std::string& path_a, const std::string& path_b);

}  // namespace tenon
