// SPDX-License-Identifier: Apache-2.0
//
// Decides which checkpoints and exports in a folder a run has saved itself. Only these are counted
// and removed by keep_last, and rolled back to. Copies, and checkpoints of other runs, belong to
// whoever put them there.
// Threads: any.
#pragma once

#include "host/checkpoint/checkpoint_index.hpp"
#include "host/journal/run_state.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

// "step-00000500_tokens-64000_epoch-1_window-3"; without tokens or windows if there are none.
std::string checkpoint_name(const RunState& state, bool has_windows);

// True for the names that the run has or had: a run may be renamed when it is resumed.
using RunTest = std::function<bool(const std::string& run)>;

// True if the index names the run, and the checkpoint by the name of its folder. In checkpoints of
// earlier releases, whose index has no such name, the folder has the name that its step gives.
bool is_own_checkpoint(const CheckpointMetadata& metadata,
                       const std::string& name,
                       const RunTest& is_run);

// Returns the step in a name that runs give to checkpoints and exports; none for other names.
std::optional<uint64_t> step_in_name(std::string_view name);

}  // namespace tenon
