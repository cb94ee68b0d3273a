// SPDX-License-Identifier: Apache-2.0
//
// Whether the last block of each model, and the losses, can run on one chunk of a sequence at a
// time. The outputs of these blocks (logits over the whole vocabulary for each position) and their
// gradients then exist for one chunk only. Sums and gradients equal those of the whole sequence, up
// to floating-point summation order. microbatch_losses.hpp computes them.
// Threads: the train thread.
#pragma once

#include "host/model/graph.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/objective/metric_set.hpp"

namespace tenon {

// Checks that model, losses and metrics allow chunks. `counts_ahead`: all counts are known before
// the forward.
// Errors  loss.cannot_tile, with the reason
void check_chunking(const ModelGraph& graph,
                    const LossSet& losses,
                    const MetricSet& metrics,
                    bool counts_ahead);

}  // namespace tenon
