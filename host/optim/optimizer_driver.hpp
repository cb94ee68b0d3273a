// SPDX-License-Identifier: Apache-2.0
//
// Drives the dense optimizers over the flat groups: cuts them into pieces, owns slots and step
// counters, and hands each optimizer the pieces of its partition. The formulas are the plugins'.
// Invariants: a parameter that received no gradient in a step is not touched, and neither are its
// slots and its counter; every element of a piece has had the same number of updates, so a piece is
// cut, for good, where its parameters part ways.
// Threads: the train thread.
#pragma once

#include "host/plugin/optimizer_proxy.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/tensor/flat_group.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon {

// One optimizer and its partition: partition i of the flat groups belongs to element i.
struct OptimizedPartition {
  OptimizerProxy optimizer;
  double lr = 0;  // before schedule and factor
  std::string name = {};
  std::string match = {};    // the pattern of parameter names that made it; "" if none did
  std::string options = {};  // the optimizer's, as JSON
};

class OptimizerDriver final : public Stateful {
 public:
  // `groups` is borrowed and outlives the driver.
  OptimizerDriver(std::vector<OptimizedPartition> partitions,
                  std::vector<FlatGroup>& groups,
                  const ExecBase& base);
  ~OptimizerDriver();
  OptimizerDriver(const OptimizerDriver&) = delete;
  OptimizerDriver& operator=(const OptimizerDriver&) = delete;

  // Applies one update with rates lr * factor. Where `found_inf` is defined and 1, nothing changes:
  // parameters, slots and counters stay as they are, and nobody waits to hear which it was.
  // Shapes  found_inf [] f32, on the groups' device
  // Errors  plugin.failed
  void update(double factor, const CallPlace& place, const at::Tensor& found_inf = {});

  // The rate of the first partition under `factor`: what a log line shows.
  double lr(double factor) const;

  const std::vector<OptimizedPartition>& partitions() const { return partitions_; }

  // Bytes of all slots and counters.
  int64_t state_bytes() const;

  // By parameter, so that it can be resharded: slots/SLOT/NAME, what this rank has of it, or
  // the scalar of its piece; updates/NAME; and starts/NAME, 1 where a piece begins. Waits for the
  // device, to read the counters.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  // Into a driver of the same partitions. Cuts its pieces as they were.
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  struct Piece;

  void add_pieces(size_t group, size_t first_entry, size_t last_entry, uint32_t partition);
  void cut_where_without_grad();
  // Cuts pieces behind each entry that ends a part; `starts_anew` says so of the next one.
  bool cut(const std::function<bool(const Piece& piece, size_t entry)>& ends_part);
  void bind();
  template <class Take>
  void each_slot(const Piece& piece, Take take) const;

  std::vector<OptimizedPartition> partitions_;
  std::vector<FlatGroup>& groups_;
  std::vector<Piece> pieces_;      // sorted by partition
  at::Tensor steps_;               // [pieces] f32: updates applied
  std::vector<at::Tensor> lrs_;    // by partition, [] f64
  std::vector<ExecFrame> frames_;  // by partition
  // Call arguments, kept to save allocations.
  std::vector<tenon_tensor*> parameter_handles_;
  std::vector<const tenon_tensor*> grad_handles_;
  std::vector<tenon_tensor*> slot_handles_;
  std::vector<const tenon_tensor*> step_handles_;
};

}  // namespace tenon
