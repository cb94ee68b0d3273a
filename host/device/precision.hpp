// SPDX-License-Identifier: Apache-2.0
//
// The meaning of a recipe's `train.precision`: the dtype that is stored, the dtype that blocks see,
// and the dtype of autocast, if any. It computes nothing itself.
//
//   name            stored   blocks see   operators      loss sums
//   fp32            fp32     fp32         fp32           fp32
//   fp64            fp64     fp64         fp64           fp64
//   bf16_autocast   fp32     fp32         bf16 or fp32   fp32
//   fp16_autocast   fp32     fp32         fp16 or fp32   fp32; GPU only
//   bf16_params     fp32     bf16         bf16           fp32
//   bf16            bf16     bf16         bf16           fp32
//
// "Stored" is the dtype of parameters, of gradients, and of optimizer state that has the
// parameters' dtype. Losses, metrics and norms never run under autocast. Parameters flagged
// keep_fp32 are stored and seen in fp32 if the run's dtype is narrower.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

namespace tenon {

struct PrecisionPolicy {
  at::ScalarType stored = at::kFloat;
  at::ScalarType compute = at::kFloat;          // parameters and values, as blocks see them
  std::optional<at::ScalarType> autocast = {};  // for operators inside blocks

  // The narrowest dtype for loss sums; modules are also built in it.
  at::ScalarType exact() const { return stored == at::kDouble ? at::kDouble : at::kFloat; }
};

enum class ComputesOn { kCpu, kGpu };

// Returns the policy for `name`, which must be in the table above.
// Errors  precision.needs_gpu for fp16 on a CPU
PrecisionPolicy precision_policy(std::string_view name, ComputesOn device);

}  // namespace tenon
