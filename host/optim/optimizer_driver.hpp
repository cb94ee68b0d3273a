// SPDX-License-Identifier: Apache-2.0
//
// Runs the dense optimizers on the flat groups: cuts groups into pieces, owns slots and step
// counters, and passes each optimizer the pieces of its partition. Plugins implement the formulas.
// Invariants: a step does not change parameters without a gradient, nor their slots and counters;
// all elements of a piece have had the same number of updates. So a piece is cut, permanently, if
// only some of its parameters have a gradient in a step.
// Threads: the train thread.
#pragma once

#include "host/plugin/optimizer_proxy.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/tensor/flat_group.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// One optimizer and its partition: partition i of the flat groups belongs to element i.
struct OptimizedPartition {
  OptimizerProxy optimizer;
  double lr = 0;  // learning rate, before the schedule's factor
  std::string name = {};
  std::string match = {};    // pattern of parameter names that selects it; "" if none
  std::string options = {};  // of the optimizer, as JSON
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

  // Applies one update with learning rates lr * factor. If `found_inf` is defined and 1,
  // parameters, slots and counters stay unchanged. The host does not wait for its value.
  // Shapes  found_inf [] f32, on the groups' device
  // Errors  plugin.failed
  void update(double factor, const CallPoint& point, const at::Tensor& found_inf = {});
  // The same for the parameters of one flat group, whose gradients are final.
  void update_group(size_t group,
                    double factor,
                    const CallPoint& point,
                    const at::Tensor& found_inf = {});

  // True if an optimizer evaluates at other values than it trains at.
  bool has_evaluation_values() const;
  // Replaces the slices of such optimizers' parameters by the values to evaluate and to export, and
  // keeps a copy of the values of training. The caller publishes the slices.
  // Errors  plugin.failed
  void use_evaluation_values(const CallPoint& point);
  // Restores the values of training, bit for bit.
  void use_training_values();

  // Returns the learning rate of the first partition with `factor`, for logs.
  double lr(double factor) const;

  const std::vector<OptimizedPartition>& partitions() const { return partitions_; }

  // Bytes of all slots and counters.
  int64_t state_bytes() const;

  // Saves the state by parameter, so that it can be resharded. slots/SLOT/NAME has this rank's part
  // of a slot, or the scalar of its piece. updates/NAME has the counter. starts/NAME is 1 if a
  // piece starts with the parameter. Waits for the device, to read the counters.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  // Loads into a driver with the same partitions. Cuts its pieces as they were saved.
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  struct Piece;

  void add_pieces(size_t group, size_t first_entry, size_t last_entry, uint32_t partition);
  using IsChosen = std::function<bool(const Piece& piece)>;
  void update_pieces(const IsChosen& is_chosen,
                     double factor,
                     const CallPoint& point,
                     const at::Tensor& found_inf);
  void advance_counters(const at::Tensor& found_inf);
  void call_update(std::span<Piece> pieces,
                   double factor,
                   const CallPoint& point,
                   const at::Tensor& found_inf);
  void cut_where_without_grad(const IsChosen& is_chosen);
  void cut_slots(const Piece& piece, int64_t begin, int64_t length, Piece& part);
  // Cuts pieces after each entry for which `ends_part` is true. Returns true if any piece was cut.
  bool cut(const std::function<bool(const Piece& piece, size_t entry)>& ends_part);
  at::Tensor grad_of(const Piece& piece);
  void bind();
  template <class Take>
  void each_slot(const Piece& piece, Take take) const;

  std::vector<OptimizedPartition> partitions_;
  std::vector<FlatGroup>& groups_;
  std::vector<Piece> pieces_;      // sorted by partition and dtype
  at::Tensor steps_;               // [pieces] f32: updates applied
  at::Tensor one_;                 // [] as steps_: a tensor of this dtype is added without a copy
  std::vector<at::Tensor> lrs_;    // by partition, [] f64
  std::vector<ExecFrame> frames_;  // by partition
  // Call arguments, kept to avoid allocations.
  std::vector<tenon_tensor*> parameter_handles_;
  std::vector<const tenon_tensor*> grad_handles_;
  std::vector<tenon_tensor*> slot_handles_;
  std::vector<const tenon_tensor*> step_handles_;
  // Values of training of pieces that hold those of evaluation.
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;  // slice, copy
};

}  // namespace tenon
