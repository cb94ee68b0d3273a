// SPDX-License-Identifier: Apache-2.0
//
// The model's last block together with the losses, by pieces of a sequence: what the block makes
// (logits, of a whole vocabulary a position) is there for one piece at a time, and so is its
// gradient. Sums and gradients are those of the whole but for the order in which they are added.
// Threads: the train thread.
#pragma once

#include "host/model/model_runner.hpp"
#include "host/tensor/batch.hpp"
#include "host/train/loss_set.hpp"
#include "host/train/metric_set.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

// Errors  loss.cannot_tile: what stands in the way
void check_tiling(const ModelGraph& graph,
                  const LossSet& losses,
                  const MetricSet& metrics,
                  bool counts_ahead);

// After a forward without the tail: the sums of the losses, [] each, over pieces of `tile`
// positions. With seeds the gradients have then reached what the tail reads, and
// ModelRunner::backward does the rest; without them nothing is kept for a backward.
std::vector<at::Tensor> tiled_sums(ModelRunner& runner,
                                   LossSet& losses,
                                   const Batch& batch,
                                   const CallPlace& place,
                                   int64_t tile,
                                   const std::vector<at::Tensor>* seeds);

}  // namespace tenon
