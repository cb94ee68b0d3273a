// SPDX-License-Identifier: Apache-2.0
//
// Compares a block on the ranks of a tensor group with the block on one rank.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/divided_trial.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// One result of a block.
struct ResultKey {
  enum class Kind { kOutput, kAux, kInput, kParameter, kBuffer };  // two are gradients
  Kind kind = Kind::kOutput;
  std::size_t index = 0;  // of the block's outputs, auxiliary losses, inputs, ...
};

// Tensors that must be equal.
struct ComparedTensors {
  at::Tensor found;
  at::Tensor expected;
  std::string where;  // "rank 1 has"
};

class DividedComparison {
 public:
  // References are borrowed.
  // Errors  those of the block on one rank
  DividedComparison(ModelTrial& whole,
                    DividedTrial& ranks,
                    WholeCall call,
                    std::vector<int64_t> pieces);

  uint32_t block() const { return call_.block; }
  const ModelGraph& graph() const { return whole_.graph(); }
  const DividedTrial& ranks() const { return ranks_; }
  bool has_pieces() const { return !pieces_.empty(); }
  // "2 ranks divide it", "2 ranks with 5 and 3 positions divide it".
  std::string division() const;

  const DividedOutcome& outcome() const { return divided_; }
  // Returns the first result that differs, or nothing. The block must not have failed.
  std::optional<ResultKey> first_difference() const;
  // `output "y"`, `the gradient by "x"`.
  std::string name_of(const ResultKey& key) const;
  // "rank 1 has 0.5 at [0, 2], expected 0.25"
  std::string numbers_of(const ResultKey& key) const;

  // ---- what causes a difference ----

  // Returns whether each rank, or the sum over ranks, has the gradient of one rank.
  bool has_whole_gradients(std::size_t parameter) const;
  bool has_sum_of_gradients(std::size_t parameter) const;
  // Returns whether ranks have different values of an output without a split.
  bool is_different_on_ranks(const ResultKey& key) const;
  // Runs the block again, with parameter `p` of the graph set to zero, or without the gradients of
  // auxiliary losses. Returns whether the result is equal then.
  bool is_equal_without(const ResultKey& key, uint32_t p);
  bool is_equal_without_aux(const ResultKey& key);

 private:
  using Comparisons = std::vector<ComparedTensors>;

  std::size_t num_results(ResultKey::Kind kind) const;
  Comparisons compared(const ResultKey& key) const;
  Comparisons each_rank(const ResultKey& key) const;
  Comparisons of_aux(std::size_t i) const;
  Comparisons of_buffer(std::size_t i) const;
  at::Tensor sum_of_inputs(std::size_t i) const;
  at::Tensor sum_of_parameters(std::size_t i) const;
  bool adds_up(std::size_t parameter) const;
  bool is_equal(const ResultKey& key) const;
  void run();
  bool is_equal_again(const ResultKey& key);

  ModelTrial& whole_;
  DividedTrial& ranks_;
  WholeCall call_;
  const std::vector<int64_t> pieces_;
  RankResult one_;  // of one rank
  DividedOutcome divided_;
};

}  // namespace tenon
