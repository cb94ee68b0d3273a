// SPDX-License-Identifier: Apache-2.0
//
// Facts about a graph that runs, plans and meters need: the blocks that have a backward, the values
// that have a gradient, the last reader of each value, the first reader of table rows, units and
// tails. Computed once for a graph and a set of trainable parameters.
// Not for sizes of batches, settings of recipes or ranks.
// Invariant: the same graph and trainable parameters give the same facts on every rank.
// Threads: any; facts do not change.
#pragma once

#include "host/model/graph.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace tenon {

class GraphFacts {
 public:
  // `graph` is borrowed for the lifetime of the facts. `is_trainable` is called here only, for
  // parameters that are not tied.
  GraphFacts(const ModelGraph& graph, const std::function<bool(uint32_t p)>& is_trainable);

  const ModelGraph& graph() const { return *graph_; }
  uint32_t num_blocks() const { return static_cast<uint32_t>(graph_->blocks.size()); }

  // True if gradients flow through the block: it has a trainable parameter, or reads a value that
  // has a gradient.
  bool has_backward(uint32_t block) const { return has_backward_[block]; }
  // True if the value has a gradient: it consists of table rows, which are trained, or a block with
  // a backward makes it.
  bool has_gradient(uint32_t value) const { return has_gradient_[value]; }
  const std::vector<bool>& values_with_gradient() const { return has_gradient_; }

  // The unit of the block, as ModelGraph::unit_of.
  const ModelUnit& unit_of(uint32_t block) const { return units_[block]; }
  // The blocks that can run in chunks of T with the losses (tail_blocks), ascending.
  const std::vector<uint32_t>& tails() const { return tails_; }
  // True for the tails, and for the last block of the graph even if it cannot run in chunks.
  bool is_tail(uint32_t block) const { return is_tail_[block]; }

  // The values that no later block, loss, metric or lookup reads: the block is their last reader,
  // or makes them and nothing reads them.
  const std::vector<uint32_t>& last_read_by(uint32_t block) const { return last_read_[block]; }
  // The values of table rows that no earlier block reads.
  const std::vector<uint32_t>& rows_first_read_by(uint32_t block) const { return rows_[block]; }
  // True if a lookup takes its ids from the value.
  bool has_ids(uint32_t value) const { return has_ids_[value]; }

  // Returns whether a recompute of its unit makes the value again: recomputed blocks of that unit
  // make and read it, and no other block does.
  bool is_remade(uint32_t value, const std::function<bool(uint32_t block)>& is_recomputed) const;
  // Returns, by block, the values that can be moved out of memory after it, until backward reaches
  // it: the block ends the last unit that reads the value, and all readers run again in backward
  // (`is_light`). Excludes values that the last unit of the graph reads, and those of which `stays`
  // is true.
  std::vector<std::vector<uint32_t>> movable_values(
      const std::function<bool(uint32_t block)>& is_light,
      const std::function<bool(uint32_t value)>& stays) const;

 private:
  void find_paths(const std::function<bool(uint32_t p)>& is_trainable);
  void find_readers();

  const ModelGraph* graph_;
  std::vector<bool> has_backward_;                // by block
  std::vector<bool> has_gradient_;                // by value
  std::vector<bool> has_ids_;                     // by value
  std::vector<ModelUnit> units_;                  // by block
  std::vector<uint32_t> tails_;                   // blocks
  std::vector<bool> is_tail_;                     // by block
  std::vector<std::vector<uint32_t>> last_read_;  // by block: values
  std::vector<std::vector<uint32_t>> rows_;       // by block: values
};

}  // namespace tenon
