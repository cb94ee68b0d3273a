// SPDX-License-Identifier: Apache-2.0
#include "host/train/objective/chunked_loss.hpp"

#include "host/error/error.hpp"
#include "host/model/joined_graph.hpp"

#include <algorithm>
#include <string>

namespace tenon {
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

}  // namespace tenon
