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
  // With `has_chunks`, the runner has a loss_chunk. `values` are those of the microbatch that runs.
  // All are borrowed.
  ForwardPass(ProgramRunner& model,
              MicrobatchState& values,
              LossSet& losses,
              const MetricSet& metrics,
              LoopEvents& events,
              bool has_chunks)
      : model_(model),
        values_(values),
        losses_(losses),
        metrics_(metrics),
        events_(events),
        has_chunks_(has_chunks) {}

  // Runs the model, between the events before_forward and after_forward.
  void run_model(const Batch& batch, const CallPlace& place);

  // Computes the losses, between the events before_loss and after_loss. Fills in the sums, and the
  // counts if they are empty. Calls `on_losses` before after_loss if the microbatch has samples.
  // Errors  loss.late_count in training, if the model adds auxiliary losses and the main loss is
  //         counted after the forward
  void run_losses(Microbatch& microbatch,
                  const CallPlace& place,
                  const std::function<void()>& on_losses);

  // Does both without events.
  void run_quietly(Microbatch& microbatch,
                   const CallPlace& place,
                   const std::function<void()>& on_losses);

  // Returns true if the losses are computed in chunks. Their gradients then reach the model along
  // with the sums. Metrics read whole outputs, so an evaluation with metrics uses no chunks.
  bool is_chunked(const CallPlace& place) const {
    return has_chunks_ && (place.is_train || metrics_.is_empty());
  }

 private:
  void count(Microbatch& microbatch, const CallPlace& place);
  void compute_model(const Batch& batch, const CallPlace& place);
  void compute_losses(Microbatch& microbatch,
                      const CallPlace& place,
                      const std::function<void()>& on_losses);

  ProgramRunner& model_;
  MicrobatchState& values_;
  LossSet& losses_;
  const MetricSet& metrics_;
  LoopEvents& events_;
  const bool has_chunks_;
};

}  // namespace tenon
