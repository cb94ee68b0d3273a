// SPDX-License-Identifier: Apache-2.0
//
// RunState: the progress of a run, without values that can be derived from it. Stored in
// checkpoints, and part of journal entries.
#pragma once

#include <cstdint>

namespace tenon {

struct RunState {
  uint64_t step = 0;     // update attempts started
  uint64_t updates = 0;  // updates applied
  uint64_t epochs = 0;   // finished
  uint64_t windows = 0;  // finished
  int64_t samples = 0;   // trained on, of all ranks
  int64_t tokens = 0;
};

}  // namespace tenon
