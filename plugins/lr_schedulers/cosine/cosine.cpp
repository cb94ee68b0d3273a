// SPDX-License-Identifier: Apache-2.0
//
// The schedule that falls along half a cosine from 1 to `min_ratio`.
//
// Source: Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts (ICLR 2017),
// equation 5, with one cycle.
#include <tenon/cpp/plugin.hpp>

#include "../falling.hpp"

namespace {

class Cosine : public FallingSchedule<fall_along_cosine> {
 public:
  static constexpr const char* kType = "cosine";
  static constexpr const char* kSummary =
      "falls along half a cosine to min_ratio, after an optional warmup";
  using FallingSchedule::FallingSchedule;
};

}  // namespace

TENON_PLUGIN(Cosine)
