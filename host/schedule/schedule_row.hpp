// SPDX-License-Identifier: Apache-2.0
//
// Writes the row of a rank: each action gets the next microbatch of its stage and kind.
// Threads: any.
#pragma once

#include "host/schedule/stage_action.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace tenon {

class ScheduleRow {
 public:
  // Appends to `actions`, which must outlive the row.
  explicit ScheduleRow(std::vector<StageAction>& actions) : actions_(actions) {}

  void forward(uint32_t stage);
  void backward(uint32_t stage);
  // The first half of a backward. Its second half waits until one of the functions below.
  void backward_inputs(uint32_t stage);
  // The second half that waits longest, of any stage; nothing if none waits.
  void oldest_weights();
  // The same, of one stage.
  void weights(uint32_t stage);
  // All second halves that wait, of one stage or of all.
  void all_weights(uint32_t stage);
  void all_weights();

  uint32_t num_forwards(uint32_t stage) const;

 private:
  using Waiting = std::deque<std::pair<uint32_t, uint32_t>>;  // stage and microbatch

  void add_weights(Waiting::const_iterator at);
  Waiting::const_iterator first_of(uint32_t stage) const;

  std::vector<StageAction>& actions_;
  std::map<uint32_t, uint32_t> forwards_;   // by stage
  std::map<uint32_t, uint32_t> backwards_;  // whole, or their first halves
  Waiting waiting_;                         // backwards of weights
};

}  // namespace tenon
