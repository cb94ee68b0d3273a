// SPDX-License-Identifier: Apache-2.0
//
// What a recipe's `train.precision` means: which dtype is stored, which one blocks see, and whether
// autocast takes part. It computes nothing itself.
//
//   name            stored   blocks see   operators      loss sums
//   fp32            fp32     fp32         fp32           fp32
//   fp64            fp64     fp64         fp64           fp64
//   bf16_autocast   fp32     fp32         bf16 or fp32   fp32
//   fp16_autocast   fp32     fp32         fp16 or fp32   fp32; on a GPU alone
//   bf16_params     fp32     bf16         bf16           fp32
//   bf16            bf16     bf16         bf16           fp32
//
// "Stored" is what the optimizer sees: parameters, gradients, and its own state where it asks for
// the parameters' dtype. Losses, metrics and norms are never under autocast. Parameters flagged
// keep_fp32 are stored and seen in fp32 where the run is narrower.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

namespace tenon {

struct PrecisionPolicy {
  at::ScalarType stored = at::kFloat;
  at::ScalarType compute = at::kFloat;          // parameters and values, as blocks see them
  std::optional<at::ScalarType> autocast = {};  // of operators inside blocks

  // The least that a loss may sum in; also what modules are built in.
  at::ScalarType exact() const { return stored == at::kDouble ? at::kDouble : at::kFloat; }
};

enum class ComputesOn { kCpu, kGpu };

// Errors  precision.needs_gpu for fp16 on a CPU; `name` must be one of the list above
PrecisionPolicy precision_policy(std::string_view name, ComputesOn device);

}  // namespace tenon
