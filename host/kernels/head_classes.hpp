// SPDX-License-Identifier: Apache-2.0
//
// Which classes of a head this rank has, and what ranks that divide the classes exchange: a few
// numbers per row of logits, once in forward and never in backward.
#pragma once

#include "host/kernels/region_call.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon {

struct HeadClasses {
  int64_t first = 0;               // class of the first row of the weight
  int64_t whole = 0;               // classes of all ranks
  int64_t copies = 1;              // adjacent ranks with the same classes
  std::optional<RegionCall> call;  // none outside of a region

  // Whether this rank adds its terms to gradients: the first of its copies does.
  bool adds_gradients() const;
};

// Returns the classes of a weight with `num_rows` of `whole` rows in this thread's region.
// Errors  c10::Error if ranks do not have all rows equally often
HeadClasses head_classes(std::string_view op, int64_t num_rows, int64_t whole);

// Replaces what rows have of this rank's classes by what they have of all classes.
// Shapes  rows_NF [N, F] fp64, on the CPU: the four fields of a HeadRow each
void add_classes_of_ranks(const HeadClasses& classes, at::Tensor& rows_NF);

// The same for libtorch's operators.
// Shapes  sums_FN [3, N], fp32 or fp64: log(sum(exp(logits))), logit of the label, sum of logits
at::Tensor sums_of_ranks(const HeadClasses& classes, const at::Tensor& sums_FN);

}  // namespace tenon
