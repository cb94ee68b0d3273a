// SPDX-License-Identifier: Apache-2.0
#include "host/train/forward_pass.hpp"

#include "host/error/error.hpp"
#include "host/train/objective/chunked_loss.hpp"

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
  const auto extent =
      is_chunked(place) ? ModelRunner::Extent::kAllButTail : ModelRunner::Extent::kWhole;
  if (batch.samples > 0) {
    model_.forward(batch, place, extent);
  } else {
    model_.forward_idle(place, extent);
  }
}

void ForwardPass::compute_losses(Microbatch& microbatch,
                                 const CallPlace& place,
                                 const std::function<void()>& on_losses) {
  const Batch& batch = microbatch.batch;
  if (batch.samples == 0) {
    return;
  }
  if (microbatch.counts.empty()) {
    count(microbatch, place);
  }
  std::vector<SourceSums>* const by_source =
      microbatch.is_by_source ? &microbatch.by_source : nullptr;
  microbatch.sums = is_chunked(place) ? chunked_sums(model_,
                                                     losses_,
                                                     batch,
                                                     place,
                                                     *chunk_,
                                                     place.is_train ? &microbatch.seeds : nullptr,
                                                     by_source)
                                      : losses_.compute(model_, batch, place, by_source);
  on_losses();
}

void ForwardPass::count(Microbatch& microbatch, const CallPlace& place) {
  if (is_chunked(place)) {  // the outputs never exist as a whole
    microbatch.counts = losses_.count(microbatch.batch, place);
    return;
  }
  microbatch.counts = losses_.count(model_, microbatch.batch, place);
  if (place.is_train && !model_.aux_losses().empty()) {
    throw Error("loss.late_count",
                "the model adds the auxiliary loss '" + model_.aux_losses().front().name +
                    "', but the main loss is counted after the forward: the two cannot be weighed "
                    "against each other");
  }
}

}  // namespace tenon
