// SPDX-License-Identifier: Apache-2.0
//
// The losses of one microbatch, computed when its program says so: on the whole batch, or on one
// chunk of T after the other.
// Threads: the train thread.
#pragma once

#include "host/model/program_runner.hpp"
#include "host/train/microbatch.hpp"
#include "host/train/objective/loss_set.hpp"

namespace tenon {

class MicrobatchLosses final : public LossPort {
 public:
  // All are borrowed. `microbatch` has the seeds of `backward`.
  MicrobatchLosses(LossSet& losses, Microbatch& microbatch, const CallPoint& point)
      : losses_(losses), microbatch_(microbatch), point_(point) {}

  // Sets the sums of the microbatch, and those by source if it wants them; in chunks, adds to them
  // in f64.
  // Errors  those of the losses
  void compute(MicrobatchState& values) override;
  void backward(MicrobatchState& values) override;

 private:
  LossSet& losses_;
  Microbatch& microbatch_;
  const CallPoint point_;
};

}  // namespace tenon
