// SPDX-License-Identifier: Apache-2.0
#include "host/train/forward_pass.hpp"

#include "host/error/error.hpp"
#include "host/train/microbatch_losses.hpp"

namespace tenon {

void ForwardPass::run_stage(Microbatch& microbatch, const CallPoint& point, uint32_t stage) {
  using Losses = ProgramRunner::Losses;
  run_.model.runner.forward(*microbatch.state,
                            microbatch.batch,
                            point,
                            is_chunked(point) ? Losses::kInChunks : Losses::kWhole,
                            stage);
}

void ForwardPass::run_model(Microbatch& microbatch, const CallPoint& point) {
  events_.fire(TENON_EVENT_BEFORE_FORWARD);
  compute_model(microbatch, point);
  events_.fire(TENON_EVENT_AFTER_FORWARD);
}

void ForwardPass::run_losses(Microbatch& microbatch,
                             const CallPoint& point,
                             const std::function<void()>& on_losses) {
  events_.fire(TENON_EVENT_BEFORE_LOSS);
  compute_losses(microbatch, point, on_losses);
  events_.fire(TENON_EVENT_AFTER_LOSS);
}

void ForwardPass::run_quietly(Microbatch& microbatch,
                              const CallPoint& point,
                              const std::function<void()>& on_losses) {
  compute_model(microbatch, point);
  compute_losses(microbatch, point, on_losses);
}

void ForwardPass::compute_model(Microbatch& microbatch, const CallPoint& point) {
  for (const uint32_t stage : run_.plan.loop.schedule.stages()) {
    run_stage(microbatch, point, stage);
  }
}

void ForwardPass::compute_losses(Microbatch& microbatch,
                                 const CallPoint& point,
                                 const std::function<void()>& on_losses) {
  if (!run_.plan.loop.schedule.has_losses()) {
    return;
  }
  const bool has_samples = microbatch.batch.samples > 0;
  if (has_samples && microbatch.counts.empty()) {
    count(microbatch, point);
  }
  MicrobatchLosses losses(run_.model.losses, microbatch, point);
  run_.model.runner.run_losses(*microbatch.state, losses);
  if (has_samples) {
    on_losses();
  }
}

void ForwardPass::count(Microbatch& microbatch, const CallPoint& point) {
  if (is_chunked(point)) {  // the outputs never exist as a whole
    microbatch.counts =
        run_.model.losses.count(microbatch.batch, point, run_.model.sequences.get());
    return;
  }
  microbatch.counts = run_.model.losses.count(*microbatch.state, microbatch.batch, point);
  if (point.is_train && !microbatch.state->aux_losses().empty()) {
    throw Error("loss.late_count",
                "the model adds the auxiliary loss '" +
                    microbatch.state->aux_losses().front().name +
                    "', but the main loss is counted after the forward: the two cannot be weighed "
                    "against each other");
  }
}

}  // namespace tenon
