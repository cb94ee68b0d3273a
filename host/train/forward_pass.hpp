// SPDX-License-Identifier: Apache-2.0
//
// One forward of the model and its losses on a microbatch, with the events around it: the same for
// training and for evaluation. It normalizes nothing.
// Invariant: a rank without samples walks through the same blocks as the others, and computes no
// loss.
// Threads: the train thread.
#pragma once

#include "host/model/model_runner.hpp"
#include "host/train/loop_events.hpp"
#include "host/train/microbatch.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/objective/metric_set.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace tenon {

class ForwardPass {
 public:
  // `loss_chunk` is the recipe's, in positions; none: losses see all positions at once. The rest is
  // borrowed.
  ForwardPass(ModelRunner& model,
              LossSet& losses,
              const MetricSet& metrics,
              LoopEvents& events,
              std::optional<int64_t> loss_chunk)
      : model_(model), losses_(losses), metrics_(metrics), events_(events), chunk_(loss_chunk) {}

  // before_forward, the model, after_forward.
  void run_model(const Batch& batch, const CallPlace& place);

  // before_loss, the losses, after_loss. Fills in the sums, and the counts unless they are there.
  // `on_losses` is called before after_loss if the microbatch has samples.
  // Errors  loss.late_count if auxiliary losses meet a loss that is counted now, in training
  void run_losses(Microbatch& microbatch,
                  const CallPlace& place,
                  const std::function<void()>& on_losses);

  // True if the losses come in chunks: then their gradients have reached the model with the sums.
  // Metrics read outputs as a whole, so that an evaluation with metrics has no chunks.
  bool is_chunked(const CallPlace& place) const {
    return chunk_.has_value() && (place.is_train || metrics_.is_empty());
  }

 private:
  void count(Microbatch& microbatch, const CallPlace& place);

  ModelRunner& model_;
  LossSet& losses_;
  const MetricSet& metrics_;
  LoopEvents& events_;
  std::optional<int64_t> chunk_;
};

}  // namespace tenon
