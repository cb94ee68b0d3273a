// SPDX-License-Identifier: Apache-2.0
#include "host/train/forward_pass.hpp"

#include "host/error/error.hpp"
#include "host/train/microbatch_losses.hpp"

namespace tenon {

void ForwardPass::run_model(const Batch& batch, const CallPlace& place) {
  events_.fire(TENON_EVENT_BEFORE_FORWARD);
  compute_model(batch, place);
  events_.fire(TENON_EVENT_AFTER_FORWARD);
}

void ForwardPass::run_losses(Microbatch& microbatch,
                             const CallPlace& place,
                             const std::function<void()>& on_losses) {
  events_.fire(TENON_EVENT_BEFORE_LOSS);
  compute_losses(microbatch, place, on_losses);
  events_.fire(TENON_EVENT_AFTER_LOSS);
}

void ForwardPass::run_quietly(Microbatch& microbatch,
                              const CallPlace& place,
                              const std::function<void()>& on_losses) {
  compute_model(microbatch.batch, place);
  compute_losses(microbatch, place, on_losses);
}

void ForwardPass::compute_model(const Batch& batch, const CallPlace& place) {
  using Losses = ProgramRunner::Losses;
  run_.model.runner.forward(
      run_.model.microbatch, batch, place, is_chunked(place) ? Losses::kInChunks : Losses::kWhole);
}

void ForwardPass::compute_losses(Microbatch& microbatch,
                                 const CallPlace& place,
                                 const std::function<void()>& on_losses) {
  const bool has_samples = microbatch.batch.samples > 0;
  if (has_samples && microbatch.counts.empty()) {
    count(microbatch, place);
  }
  MicrobatchLosses losses(run_.model.losses, microbatch, place);
  run_.model.runner.run_losses(run_.model.microbatch, losses);
  if (has_samples) {
    on_losses();
  }
}

void ForwardPass::count(Microbatch& microbatch, const CallPlace& place) {
  if (is_chunked(place)) {  // the outputs never exist as a whole
    microbatch.counts = run_.model.losses.count(microbatch.batch, place);
    return;
  }
  microbatch.counts = run_.model.losses.count(run_.model.microbatch, microbatch.batch, place);
  if (place.is_train && !run_.model.microbatch.aux_losses().empty()) {
    throw Error("loss.late_count",
                "the model adds the auxiliary loss '" +
                    run_.model.microbatch.aux_losses().front().name +
                    "', but the main loss is counted after the forward: the two cannot be weighed "
                    "against each other");
  }
}

}  // namespace tenon
