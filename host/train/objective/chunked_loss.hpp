// SPDX-License-Identifier: Apache-2.0
//
// Runs the last block of each model, and the losses, on one chunk of a sequence at a time. The
// outputs of these blocks (logits over the whole vocabulary for each position) and their gradients
// exist for one chunk only. Sums and gradients equal those of the whole sequence, up to
// floating-point summation order. Threads: the train thread.
#pragma once

#include "host/model/model_runner.hpp"
#include "host/tensor/batch.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/objective/metric_set.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

// Checks that model, losses and metrics allow chunks. `counts_ahead`: all counts are known before
// the forward.
// Errors  loss.cannot_tile, with the reason
void check_chunking(const ModelGraph& graph,
                    const LossSet& losses,
                    const MetricSet& metrics,
                    bool counts_ahead);

// Returns the sums of the losses, [] f64 each, computed in chunks of `tile` positions. Call after a
// forward without the tail (the last block). With seeds, also computes the gradients of the tail's
// inputs, and ModelRunner::backward does the rest. If `seeds` is null, keeps nothing for backward.
// `by_source` is as in LossSet::compute.
std::vector<at::Tensor> chunked_sums(ModelRunner& runner,
                                     LossSet& losses,
                                     const Batch& batch,
                                     const CallPlace& place,
                                     int64_t tile,
                                     const std::vector<at::Tensor>* seeds,
                                     std::vector<SourceSums>* by_source = nullptr);

}  // namespace tenon
