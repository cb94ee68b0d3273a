// SPDX-License-Identifier: Apache-2.0
//
// One forward pass of the model and its losses on a microbatch, with the events around it, for
// training and evaluation. It does not normalize losses.
// Invariant: a rank without samples runs the same blocks as the other ranks, and computes no loss.
// Threads: the train thread.
#pragma once

#include "host/model/program_runner.hpp"
#include "host/train/loop_events.hpp"
#include "host/train/microbatch.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/objective/metric_set.hpp"

#include <functional>

namespace tenon {

class ForwardPass {
 public:
  // Both are borrowed.
  ForwardPass(RunServices& run, LoopEvents& events) : run_(run), events_(events) {}

  // Runs a stage of the model on the microbatch.
  void run_stage(Microbatch& microbatch, const CallPoint& point, uint32_t stage);
  // Runs all stages of this rank, between the events before_forward and after_forward.
  void run_model(Microbatch& microbatch, const CallPoint& point);

  // Computes the losses, between the events before_loss and after_loss. Fills in the sums, and the
  // counts if they are empty. Calls `on_losses` before after_loss if the microbatch has samples. A
  // rank without the last stage computes none.
  // Errors  loss.late_count in training, if the model adds auxiliary losses and the main loss is
  //         counted after the forward
  void run_losses(Microbatch& microbatch,
                  const CallPoint& point,
                  const std::function<void()>& on_losses);

  // Does both without events.
  void run_quietly(Microbatch& microbatch,
                   const CallPoint& point,
                   const std::function<void()>& on_losses);

  // Returns true if the losses are computed in chunks. Their gradients then reach the model along
  // with the sums. Metrics read whole outputs, so an evaluation with metrics uses no chunks.
  bool is_chunked(const CallPoint& point) const {
    return run_.recipe().train.loss_chunk.has_value() &&
           (point.is_train || run_.model.metrics.is_empty());
  }

 private:
  void count(Microbatch& microbatch, const CallPoint& point);
  void compute_model(Microbatch& microbatch, const CallPoint& point);
  void compute_losses(Microbatch& microbatch,
                      const CallPoint& point,
                      const std::function<void()>& on_losses);

  RunServices& run_;
  LoopEvents& events_;
};

}  // namespace tenon
