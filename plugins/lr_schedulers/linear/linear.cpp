// SPDX-License-Identifier: Apache-2.0
//
// The schedule that falls on a straight line from 1 to `min_ratio`.
#include <tenon/cpp/plugin.hpp>

#include "../falling.hpp"

namespace {

class Linear : public FallingSchedule<fall_linearly> {
 public:
  static constexpr const char* kType = "linear";
  static constexpr const char* kSummary = "falls linearly to min_ratio, after an optional warmup";
  using FallingSchedule::FallingSchedule;
};

}  // namespace

TENON_PLUGIN(Linear)
