// SPDX-License-Identifier: Apache-2.0
//
// How a recipe answers which kernels compute an operator.
#pragma once

#include "host/kernels/kernel_choice.hpp"
#include "host/recipe/kernels_recipe.hpp"

namespace tenon {

inline KernelPolicy kernel_policy_of(const KernelsRecipe& recipe) {
  return {.mode = recipe.all == "plain" ? KernelPolicy::Mode::kPlain : KernelPolicy::Mode::kAuto,
          .forced = recipe.forced<decltype(KernelPolicy::forced)>()};
}

}  // namespace tenon
