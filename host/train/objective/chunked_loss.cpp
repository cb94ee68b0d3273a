// SPDX-License-Identifier: Apache-2.0
#include "host/train/objective/chunked_loss.hpp"

#include "host/error/error.hpp"
#include "host/tensor/trace_span.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <string>

namespace tenon {
namespace {

// Returns a slice of the batch: fields with an axis T are cut along T, as views.
Batch piece_of(const Batch& batch, int64_t begin, int64_t length) {
  Batch piece = batch;
  piece.sequences.clear();
  for (BatchSequence sequence : batch.sequences) {
    const int64_t end = std::min(sequence.first + sequence.length, begin + length);
    sequence.first = std::max(sequence.first, begin);
    sequence.length = end - sequence.first;
    if (sequence.length > 0) {
      sequence.first -= begin;
      piece.sequences.push_back(sequence);
    }
  }
  for (size_t i = 0; i < piece.fields.size(); ++i) {
    const std::vector<Axis>& axes = (*batch.schema)[i].axes;
    const auto found = std::ranges::find(axes, "T", &Axis::name);
    if (found != axes.end() && piece.fields[i].defined()) {
      piece.fields[i] = piece.fields[i].narrow(found - axes.begin(), begin, length);
    }
  }
  return piece;
}

}  // namespace

void check_chunking(const ModelGraph& graph,
                    const LossSet& losses,
                    const MetricSet& metrics,
                    bool counts_ahead) {
  const auto fail = [](const std::string& why) {
    throw Error("loss.cannot_tile", "/train/loss_chunk: " + why + "; set it to null");
  };
  const std::vector<uint32_t> made = tail_outputs(graph);
  if (made.empty()) {
    fail("the model's last block, '" + graph.blocks.back().name +
         "', cannot run on a part of a sequence: it is not declared tokenwise, or reads or writes "
         "a value without an axis T");
  }
  for (size_t i = 0; i < losses.size(); ++i) {
    if (!losses.is_additive_over_tokens(i)) {
      fail(losses.text(i) + " is not a sum over tokens");
    }
    for (const uint32_t v : losses.values_read(i)) {
      if (std::ranges::find(made, v) == made.end()) {
        fail(losses.text(i) + " reads '" + graph.values[v].name +
             "', which the model's last block does not produce");
      }
    }
  }
  if (!counts_ahead) {
    fail(
        "a loss reports its count only after the forward, or a hook changes batches during "
        "gradient accumulation, so no gradient can be computed before the whole loss is known");
  }
  if (metrics.has_training()) {
    fail("a metric computed in training reads the whole outputs of the model");
  }
}

std::vector<at::Tensor> chunked_sums(ModelRunner& runner,
                                     LossSet& losses,
                                     const Batch& batch,
                                     const CallPlace& place,
                                     int64_t tile,
                                     const std::vector<at::Tensor>* seeds,
                                     std::vector<SourceSums>* by_source) {
  std::vector<at::Tensor> sums(losses.size());
  const int64_t num_positions = runner.tail_length();
  for (int64_t begin = 0; begin < num_positions; begin += tile) {
    const TraceSpan span("tile of the loss");
    const int64_t length = std::min(tile, num_positions - begin);
    runner.forward_tail(begin, length);
    const std::vector<at::Tensor> of_piece =
        losses.compute(runner, piece_of(batch, begin, length), place, by_source);
    for (size_t l = 0; l < sums.size(); ++l) {
      const at::Tensor part = of_piece[l].to(at::kDouble);
      sums[l] = sums[l].defined() ? sums[l] + part : part;
    }
    if (seeds != nullptr) {
      losses.backward(runner, *seeds);
      runner.backward_tail();
    } else {
      runner.drop_tail();  // a hook must not take the last chunk for the whole
    }
  }
  return sums;
}

}  // namespace tenon
