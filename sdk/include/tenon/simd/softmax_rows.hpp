// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of softmax_kernels.hpp return and take. They are the same types for each
// instruction set.
#pragma once

// Of a row x: m = max(x), and sum(exp(x - m)). A row of -inf only has m = -inf and sum 0.
struct SoftmaxStats {
  double largest = 0.0;
  double sum = 0.0;
};

// Per row: gradient = exp(x - largest) * slope - spread, minus at_label at the label.
struct SoftmaxSlopes {
  double largest = 0.0;
  double slope = 0.0;
  double spread = 0.0;
  double at_label = 0.0;
};
