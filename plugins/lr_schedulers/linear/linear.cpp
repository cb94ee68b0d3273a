// SPDX-License-Identifier: Apache-2.0
//
// Linear decay from 1 to `min_ratio`.
#include <tenon/cpp/plugin.hpp>

#include "../falling.hpp"

namespace {

class Linear : public FallingSchedule<fall_linearly> {
 public:
  static constexpr const char* kType = "linear";
  static constexpr const char* kSummary = "linear decay to min_ratio after an optional warmup";
  using FallingSchedule::FallingSchedule;
};

}  // namespace

TENON_PLUGIN(Linear)
