// SPDX-License-Identifier: Apache-2.0
//
// Refuses second derivatives in a backward that autograd cannot record. Without it, autograd would
// take the gradient as a constant, without an error.
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

namespace tenon {

// For the first line of a backward. `op` is the operator's name without namespace, `instead` what
// has second derivatives.
inline void check_first_order(const char* op, const char* instead = "plain kernels") {
  TORCH_CHECK(!at::GradMode::is_enabled(),
              "tenon::",
              op,
              ": its gradient has no gradient (create_graph); use ",
              instead);
}

}  // namespace tenon
