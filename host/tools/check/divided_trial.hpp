// SPDX-License-Identifier: Apache-2.0
//
// A model on the ranks of a tensor group, which are threads of this process and take turns. They
// run single blocks together, each with its part of the parameters (divided_graph.hpp).
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/model/tensor_group.hpp"
#include "host/tools/check/model_trial.hpp"
#include "host/tools/check/rank_result.hpp"
#include "host/tools/check/subject.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// A call of a block, as one rank alone would make it.
struct WholeCall {
  uint32_t block = 0;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> weights;  // gradients of the outputs
  BlockBackward backward = BlockBackward::kNone;
  bool is_train = true;
};

// What ranks give together.
struct DividedOutcome {
  std::vector<RankResult> results;  // by rank; empty if the block failed
  std::string failure;              // why it failed; "" if it did not
  bool is_refused = false;          // the plugin returned an error
  std::optional<uint32_t> failed_rank = {};
};

class DividedTrial {
 public:
  // Creates an instance of the model for each rank. `whole` is borrowed.
  // Errors  as ModelTrial
  DividedTrial(Subject& subject, ModelTrial& whole, uint32_t num_ranks);

  uint32_t num_ranks() const { return static_cast<uint32_t>(ranks_.size()); }
  const ModelGraph& graph() const { return ranks_.front()->graph(); }
  bool divides(uint32_t b) const { return graph().blocks[b].is_divided; }
  RankIndex at(uint32_t rank) const { return {.index = rank, .count = num_ranks()}; }
  // Returns what a rank has of a parameter; nothing if it has all.
  const std::optional<Box>& part(uint32_t rank, uint32_t p) const {
    return ranks_[rank]->graph().parameters[p].part;
  }
  // Returns what a rank has of a value of this shape; nothing if it has all units.
  std::optional<Box> part_of_value(uint32_t rank, uint32_t v, at::IntArrayRef shape) const;

  // Returns what a rank holds of a value. Shapes: pieces as for run()
  at::Tensor held(const at::Tensor& whole,
                  uint32_t v,
                  uint32_t rank,
                  const std::vector<int64_t>& pieces) const;

  // Runs a block with the current parameters of the whole model.
  // Shapes  pieces: positions of each rank, along axis 1 of values without a split; empty: each
  //         rank has all
  DividedOutcome run(const WholeCall& call, const std::vector<int64_t>& pieces);

 private:
  RankResult run_rank(const WholeCall& call,
                      const std::vector<int64_t>& pieces,
                      TensorGroup& group);
  at::Tensor held_gradient(const at::Tensor& whole,
                           uint32_t v,
                           TensorGroup& group,
                           const std::vector<int64_t>& pieces) const;

  ModelTrial& whole_;
  std::vector<std::unique_ptr<ModelTrial>> ranks_;
};

}  // namespace tenon
