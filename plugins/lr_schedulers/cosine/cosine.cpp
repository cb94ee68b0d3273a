// SPDX-License-Identifier: Apache-2.0
//
// Cosine decay from 1 to `min_ratio`.
//
// Source: Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts (ICLR 2017),
// equation 5, with one cycle.
#include <tenon/cpp/plugin.hpp>

#include "../falling.hpp"

namespace {

class Cosine : public FallingSchedule<fall_along_cosine> {
 public:
  static constexpr const char* kType = "cosine";
  static constexpr const char* kSummary = "cosine decay to min_ratio after an optional warmup";
  using FallingSchedule::FallingSchedule;
};

}  // namespace

TENON_PLUGIN(Cosine)
