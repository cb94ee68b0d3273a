// SPDX-License-Identifier: Apache-2.0
//
// Cuts the backward of attention into tasks, by shapes and segments alone.
#pragma once

#include "host/kernels/attention_heads.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

// A task of the backward. Tasks that share a gradient write to separate memory, except the first.
struct BackwardTask {
  AttentionPart part;
  int64_t key_part = 0;   // which memory of the gradient of queries
  int64_t head_part = 0;  // which memory of the gradients of keys and values
};

struct BackwardTasks {
  std::vector<BackwardTask> tasks;
  int64_t key_parts = 1;
  int64_t head_parts = 1;
};

// Cuts the backward by segments, which costs nothing; then by the query heads of a key head, and by
// chunks of keys, which add up parts of gradients.
BackwardTasks backward_tasks(const AttentionInput& in);

}  // namespace tenon
