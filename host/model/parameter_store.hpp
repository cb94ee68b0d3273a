// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a model: flat groups by block and dtype, and the leaf tensors that blocks are
// given. A parameter that several blocks use, or that is tied, is a group of its own, and so are
// frozen ones. Each rank keeps a slice of those that are shared out; sharded_parameters.hpp moves
// them. Invariant: each leaf is a view of its group's whole for the whole run; on one rank, updates
// are seen by the blocks without a copy, or after `publish` where blocks see a narrower dtype than
// is stored. Threads: owned and driven by the train thread.
#pragma once

#include "host/model/graph.hpp"
#include "host/tensor/flat_group.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <functional>
#include <optional>
#include <string>

struct tenon_exec;

namespace tenon {

class ModelProxy;

struct ParameterLayout {
  at::ScalarType dtype = at::kFloat;  // of TENON_CLASS_PARAM, as it is stored and updated
  at::Device device = at::kCPU;
  // Which optimizer updates parameter p; called for trainable parameters only.
  std::function<uint32_t(uint32_t p)> partition_of;
  // What blocks see of TENON_CLASS_PARAM; as it is stored where this is absent. Parameters flagged
  // keep_fp32 are stored and seen in fp32 where the run has a narrower dtype.
  std::optional<at::ScalarType> seen_dtype = {};
  FlatSharing sharing = {};  // of parameters that are shared out
  // Parameters that each rank keeps whole all the same, and how; none where it is empty.
  std::function<bool(uint32_t p)> is_unsharded = {};
  FlatSharing unsharded = {};
};

class ParameterStore final : public Stateful {
 public:
  ParameterStore(const ModelGraph& graph, const ParameterLayout& layout);

  // Gives every parameter and buffer its first value: by its declared initialiser, keyed by (seed,
  // name, element), or as the block's module has it. First values are made on the CPU, where `exec`
  // is too, and so are the same for any device and any number of ranks; of what is shared out no
  // more than one block is ever there as a whole.
  // Errors  model.bad_graph where a module's leaves differ from what was declared
  void initialise(ModelProxy& model, const tenon_exec& exec, uint64_t seed);

  // The leaf of parameter p (of the one it is tied to).
  const at::Tensor& leaf(uint32_t p) const { return leaves_[p]; }
  bool is_trainable(uint32_t p) const { return places_[p].trainable; }
  // Adds to the gradient of p and marks it touched.
  void add_grad(uint32_t p, const at::Tensor& grad) {
    groups_[places_[p].group].add_grad(places_[p].entry, grad);
  }

  // Brings this rank's part of what blocks see up to date after a change of what is stored.
  void publish();

  at::Tensor& buffer(uint32_t b) { return buffers_[b]; }
  std::vector<at::Tensor>& buffers() { return buffers_; }
  // Keeps a copy of the buffers that a forward may change, before a step; and brings it back, where
  // `is_wanted` is undefined or 1, as if the step had not been.
  // Shapes  is_wanted [] f32 on the store's device
  void keep_buffers();
  void restore_buffers(const at::Tensor& is_wanted = {});

  // Tells whether all parameters, and buffers that training changes, have the same bits: 16
  // hexadecimal digits, whatever the number of ranks. `whole_of` gives the stored values of a
  // group as a whole [numel()], group by group in their order. Waits for the device.
  std::string hash(const std::function<at::Tensor(FlatGroup&)>& whole_of);
  // The same on a rank that has all of them.
  std::string hash();
  // Of what this rank keeps.
  std::string hash_of_slices() const;

  // What this rank keeps of the parameters: values/NAME; and buffers that training changes:
  // buffers/NAME. After a load, the wholes that blocks see are to be published.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;

  std::vector<FlatGroup>& groups() { return groups_; }
  const std::vector<FlatGroup>& groups() const { return groups_; }
  const ModelGraph& graph() const { return graph_; }
  at::Device device() const { return device_; }

  // Where parameter p lies.
  struct Place {
    size_t group = 0;
    size_t entry = 0;
    bool trainable = false;
  };
  const Place& place(uint32_t p) const { return places_[p]; }

 private:
  void point_leaf(uint32_t p);
  // Fills the parameters whose initializer the host computes.
  void draw_parameters(uint64_t seed);
  // The parameters that the module of block `b` builds; undefined ones for those that it did not.
  std::vector<at::Tensor> built_parameters(ModelProxy& model,
                                           const tenon_exec& exec,
                                           uint32_t b) const;
  // Copies what a module built for parameter `p` into its group, and points the module's tensor at
  // the group.
  void adopt(const ModelBlock& block, uint32_t p, at::Tensor built);

  const ModelGraph& graph_;
  at::Device device_;
  at::ScalarType built_dtype_;  // of what modules build for TENON_CLASS_PARAM
  std::vector<FlatGroup> groups_;
  std::vector<Place> places_;       // by parameter
  std::vector<at::Tensor> leaves_;  // by parameter
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> kept_buffers_;  // by buffer; undefined for those that never change
};

// Where gradients flow: through blocks that have trainable parameters, or read what such blocks
// made, and along the values that they make.
struct GradientPaths {
  std::vector<bool> blocks;
  std::vector<bool> values;
};
GradientPaths gradient_paths(const ParameterStore& store);

}  // namespace tenon
