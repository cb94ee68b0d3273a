// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a model: flat groups by block and dtype, and the leaf tensors that blocks
// receive. Tied parameters, parameters of several blocks, and frozen parameters form separate
// groups. Each rank keeps a slice of the sharded parameters; sharded_parameters.hpp moves them. A
// rank of a pipeline has groups and names of all parameters, values of its own blocks' parameters
// (ModelParameter::is_elsewhere), and all buffers.
// Invariant: for the whole run, each leaf is a view of the unsharded buffer of its group. On one
// rank, blocks see updates without a copy, or after `publish` if they see a narrower dtype than is
// stored.
// Threads: owned and driven by the train thread.
#pragma once

#include <tenon/model.h>

#include "host/distributed/ranks/rank_role.hpp"
#include "host/model/graph.hpp"
#include "host/model/graph_facts.hpp"
#include "host/tensor/flat_group.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct tenon_exec;

namespace tenon {

class ModelProxy;
struct GroupLayout;

struct ParameterLayout {
  at::ScalarType dtype = at::kFloat;  // in which TENON_CLASS_PARAM is stored and updated
  at::Device device = at::kCPU;
  // Returns the partition of parameter p. Called for trainable parameters only.
  std::function<uint32_t(uint32_t p)> partition_of;
  // Dtype in which blocks see TENON_CLASS_PARAM; absent: the stored dtype. Parameters flagged
  // keep_fp32 are stored and seen in fp32 if the dtype of the run is narrower.
  std::optional<at::ScalarType> seen_dtype = {};
  FlatSharing sharing = {};  // of sharded parameters
  // True for parameters that each rank keeps whole, as `unsharded` says. Empty: none.
  std::function<bool(uint32_t p)> is_unsharded = {};
  FlatSharing unsharded = {};
  // Elements of trainable parameter p that a cut must not separate. Empty: 1.
  std::function<int64_t(uint32_t p)> block_of = {};
  RankRole role = {};  // of the rank that keeps the parameters: which copies it counts

  // Returns the sharing of a group that is laid out by this.
  FlatSharing sharing_of(const GroupLayout& group) const;
};

// Returns the stored values of the whole parameters of a group.
// Shapes  by entry: any, of as many elements as the parameter
using WholeOfGroup = std::function<std::vector<at::Tensor>(FlatGroup& group)>;

class ParameterStore final : public Stateful {
 public:
  ParameterStore(const ModelGraph& graph, const ParameterLayout& layout);

  // Sets the initial values of all parameters and buffers, by the declared initializer, keyed by
  // (seed, name, element), or from the module of the block. Values are computed on the CPU, where
  // `exec` is too. They are the same for any device and any number of ranks. At most one block of
  // sharded parameters is whole at a time. Modules of blocks that are elsewhere are not built.
  // Errors  model.bad_graph if the leaves of a module differ from their declarations
  void initialise(ModelProxy& model, const tenon_exec& exec, uint64_t seed);
  // Sets the buffers, and the parameters that modules build, of model number `model` of the run,
  // which is not the trained one. Call after `initialise`.
  // Errors  as initialise
  void initialise_further(uint32_t model, ModelProxy& proxy, const tenon_exec& exec, uint64_t seed);

  // Returns the leaf of parameter p, or of the parameter that p is tied to. Undefined if another
  // pipeline rank stores it.
  const at::Tensor& leaf(uint32_t p) const { return leaves_[p]; }
  bool is_trainable(uint32_t p) const { return positions_[p].trainable; }
  // Returns the dtype in which blocks see a parameter of this dtype or class.
  at::ScalarType seen_dtype(uint32_t dtype) const;
  // Returns the dtype in which a parameter of this dtype or class is stored.
  at::ScalarType stored_dtype(uint32_t dtype) const;
  // Adds to the gradient of p, and sets has_grad.
  void add_grad(uint32_t p, const at::Tensor& grad) {
    groups_[positions_[p].group].add_grad(positions_[p].entry, grad);
  }

  // Updates this rank's part of the values that blocks see, after the stored values changed.
  void publish();

  at::Tensor& buffer(uint32_t b) { return buffers_[b]; }
  std::vector<at::Tensor>& buffers() { return buffers_; }
  // Gives a buffer a new value, in new memory. A backward that reads the old value still sees it.
  void set_buffer(uint32_t b, const at::Tensor& value);
  // Same, in the memory of `next`, which has the shape and dtype of the buffer.
  void replace_buffer(uint32_t b, at::Tensor next) { buffers_[b] = std::move(next); }
  // True if training changes the buffer, and ranks must therefore agree on it.
  bool is_state(uint32_t b) const {
    const ModelBuffer& buffer = graph_.buffers[b];
    return buffer.kind == TENON_BUFFER_STATE && buffer.model == 0 && !buffer.is_real;
  }
  // `keep_buffers` remembers the buffers that a step may change. `restore_buffers` restores them,
  // as before the step, if `is_wanted` is undefined or 1.
  // Shapes  is_wanted [] f32 on the store's device
  void keep_buffers();
  void restore_buffers(const at::Tensor& is_wanted = {});
  // Exchanges the buffers for those that were kept.
  void swap_kept_buffers();

  // Returns a hash of the trained model: parameters, and the buffers that training changes. 16
  // hexadecimal digits, the same for any number of ranks. `whole_of` is called for each group in
  // order. Waits for the device.
  std::string hash(const WholeOfGroup& whole_of) { return hash_of_model(0, whole_of); }
  // Same, for model number `model` of the run instead of the trained one.
  std::string hash_of_model(uint32_t model, const WholeOfGroup& whole_of);
  // Same, on a rank that stores all parameters.
  std::string hash();
  // Returns a hash of this rank's part of the parameters that have `num_copies` copies, and of all
  // buffers.
  std::string hash_of_slices(uint32_t num_copies) const;

  // Saves this rank's part of the trained model's parameters as values/NAME, and the buffers that
  // training changes as buffers/NAME. After `load`, the caller publishes the values that blocks
  // see.
  void snapshot(StateTree& tree, const std::string& prefix) const override {
    snapshot_model(0, tree, prefix);
  }
  void load(const StateTree& tree, const std::string& prefix) override {
    load_model(0, tree, prefix);
  }
  // The same for model number `model` of the run.
  void snapshot_model(uint32_t model, StateTree& tree, const std::string& prefix) const;
  void load_model(uint32_t model, const StateTree& tree, const std::string& prefix);

  std::vector<FlatGroup>& groups() { return groups_; }
  const std::vector<FlatGroup>& groups() const { return groups_; }
  const ModelGraph& graph() const { return graph_; }
  at::Device device() const { return device_; }

  // Where the groups have a parameter.
  struct Position {
    size_t group = 0;
    size_t entry = 0;
    bool trainable = false;
  };
  const Position& position(uint32_t p) const { return positions_[p]; }

 private:
  void point_leaf(uint32_t p);
  // Fills the parameters whose initial values the host computes.
  void draw_parameters(uint64_t seed);
  // Returns the parameters that the module of block `b` builds; undefined for those it does not.
  std::vector<at::Tensor> built_parameters(ModelProxy& model,
                                           const tenon_exec& exec,
                                           uint32_t b) const;
  void build(uint32_t model, ModelProxy& proxy, const tenon_exec& exec, uint64_t seed);
  // Copies what a module built for parameter `p` into its group, and points the module's tensor at
  // the group.
  void adopt(const ModelBlock& block, uint32_t p, at::Tensor built);

  const ModelGraph& graph_;
  at::Device device_;
  at::ScalarType built_dtype_;   // that modules use for TENON_CLASS_PARAM
  at::ScalarType stored_dtype_;  // of TENON_CLASS_PARAM
  at::ScalarType seen_dtype_;    // of TENON_CLASS_PARAM
  std::vector<FlatGroup> groups_;
  std::vector<Position> positions_;  // by parameter
  std::vector<at::Tensor> leaves_;   // by parameter
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> kept_buffers_;  // by buffer; undefined if it never changes
};

// While it exists, the store has the buffers as they were at the start of the step.
class EarlierBuffers {
 public:
  explicit EarlierBuffers(ParameterStore& store) : store_(store) { store_.swap_kept_buffers(); }
  EarlierBuffers(const EarlierBuffers&) = delete;
  EarlierBuffers& operator=(const EarlierBuffers&) = delete;
  ~EarlierBuffers() { store_.swap_kept_buffers(); }

 private:
  ParameterStore& store_;
};

// Returns the facts of the store's graph, with its trainable parameters.
GraphFacts facts_of(const ParameterStore& store);

}  // namespace tenon
