// SPDX-License-Identifier: Apache-2.0
//
// The model's last block together with the losses, by pieces of a sequence: what the block makes
// (logits, of a whole vocabulary a position) is there for one piece at a time, and so is its
// gradient. Sums and gradients equal those of the whole, up to floating-point summation order.
// Threads: the train thread.
#pragma once

#include "host/model/model_runner.hpp"
#include "host/tensor/batch.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/objective/metric_set.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

// Errors  loss.cannot_chunk: what stands in the way
void check_chunking(const ModelGraph& graph,
                    const LossSet& losses,
                    const MetricSet& metrics,
                    bool counts_ahead);

// After a forward without the tail: the sums of the losses, [] each, over pieces of `tile`
// positions. With seeds the gradients have then reached what the tail reads, and
// ModelRunner::backward does the rest; without them nothing is kept for a backward.
std::vector<at::Tensor> chunked_sums(ModelRunner& runner,
                                     LossSet& losses,
                                     const Batch& batch,
                                     const CallPlace& place,
                                     int64_t tile,
                                     const std::vector<at::Tensor>* seeds);

}  // namespace tenon
