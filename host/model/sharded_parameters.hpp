// SPDX-License-Identifier: Apache-2.0
//
// Moves parameters and gradients between ranks as blocks need them. The parameters of a unit of
// blocks (graph.hpp) are gathered before its first block runs, while the previous unit computes,
// and freed after its last block. Its gradients are reduced while backward continues. The layout of
// the groups (flat_group.hpp) decides what each rank keeps; the model runner decides when blocks
// run. Knows no loss and no optimizer.
//
// The order of collectives depends only on the order of blocks, never on the data of a rank: a rank
// without samples visits the same blocks and sends zeros.
//
//   begin_forward; for each block: before_forward, after_forward
//   begin_backward; for each block, from the last: before_backward, after_backward
//   finish_gradients (once per step); the slices are updated; publish
//
// Invariants: the parameters of a unit are whole from the before_ call of the first of its blocks
// to the after_ call of the last, in forward and in backward; after finish_gradients each slice
// holds the sum over ranks and microbatches; on one rank that keeps everything, nothing is done.
// Threads: the train thread.
#pragma once

#include "host/distributed/collectives/rank_groups.hpp"
#include "host/model/group_facts.hpp"
#include "host/model/parameter_store.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

struct ShardingOptions {
  // Free a unit's parameters between its forward and its backward; absent: all except the last.
  std::optional<bool> reshard_after_forward;
  int64_t bucket_bytes = 25 << 20;
  std::optional<at::ScalarType> wire_dtype;  // of fp32 gradients in collectives; absent: fp32
};

// Returns the sharing of sharded parameters for a rank.
FlatSharing sharing_of(const ShardingRules& rules, const RankRole& role);
// Returns the sharing of parameters that each rank keeps whole.
FlatSharing unsharded_of(const RankRole& role);

class ShardedParameters {
 public:
  // Moves gradients of `store` that are reduced together into contiguous memory.
  ShardedParameters(ParameterStore& store, RankGroups& ranks, const ShardingOptions& options);

  // True if nothing has to be moved: one rank keeps everything.
  bool is_idle() const { return is_idle_; }
  // True if no gradient is sharded: all ranks have bitwise equal gradients.
  bool is_replicated() const { return is_replicated_; }

  // Broadcasts the values of the first replica to all replicas, and the buffers of rank 0 to all
  // ranks. Call it once, after initialization.
  // Errors   distributed.failed, as for all functions below
  void synchronise();
  // Gives all ranks the state buffers of rank 0, in one broadcast. Call it at the end of each step.
  void synchronise_buffers();
  // Adds up tensors over all ranks, in place: one all-reduce for each dtype.
  void sum_over_ranks(std::vector<at::Tensor>& tensors, const char* what);

  void begin_forward(bool is_train);
  void before_forward(uint32_t block);
  void after_forward(uint32_t block);

  // `ends_step` is true for the last backward of a step.
  void begin_backward(bool ends_step);
  void before_backward(uint32_t block);
  void after_backward(uint32_t block);

  // Frees the parameters gathered in a pass, even if the pass ended early.
  void end_pass();

  // Waits for all gradients of the step.
  void finish_gradients();
  // Sets the function that is called in the last backward of a step for each flat group, by index,
  // once its gradients are final. For groups that free their gradients (FlatSharing).
  void on_final_gradients(std::function<void(size_t group)> use) { use_ = std::move(use); }

  // Makes changes of the slices visible to blocks. If the unsharded parameters are kept, their
  // all-gather overlaps with the start of the next forward.
  void publish();

  // Makes the parameters of a group whole outside of a pass, for blocks that no pass runs, until
  // `end_pass`. A collective if the group is sharded.
  void gather(size_t group);
  // Frees them before that.
  void release(size_t group) { store_.groups()[group].release_whole(); }

  // Waits for pending all-gathers. Call it before anything except an update changes the slices.
  void resolve();

  // Returns the unsharded stored values of a group, for inspection. A collective if the group is
  // sharded.
  // Shapes  [group.numel()]
  at::Tensor gather_stored(FlatGroup& group);
  // Same, for the final gradients of the group.
  at::Tensor gather_gradient(FlatGroup& group);

  // Verifies by a hash that replicas store equal values.
  // Errors  distributed.replicas_differ, with the ranks
  void check_replicas();

  // `has_grad` returns one byte for each parameter, in the order of groups and entries: whether it
  // has received a gradient on this rank. `set_has_grad` sets the values combined over all ranks.
  std::vector<uint8_t> has_grad() const;
  void set_has_grad(const std::vector<uint8_t>& has_grad);

 private:
  struct GroupState {
    bool is_kept_for_backward = false;
    std::optional<size_t> bucket;
    std::unique_ptr<Work> gather;  // pending
    at::Tensor gathered_from;
  };
  struct Bucket {
    at::Tensor memory;
    std::string what;
    size_t num_groups = 0;
    size_t num_ready = 0;
  };
  struct Reduction {
    size_t group = 0;
    bool ends_step = false;
    at::Tensor sent;
    at::Tensor part;
    std::unique_ptr<Work> work;
  };
  struct Sum {
    at::Tensor target;
    at::Tensor sent;  // a separate tensor if wire_dtype is narrower
    std::unique_ptr<Work> work;
  };

  void lay_out_buckets();
  at::Tensor gather_slices(const FlatGroup& group, const at::Tensor& slice, const char* what);
  void start_gather(size_t g);
  void finish_gather(size_t g);
  at::Tensor on_wire(const at::Tensor& gradient) const;
  void start_reduction(size_t g);
  void finish_reduction();
  void start_sum(Group& among, const at::Tensor& target, const std::string& what);
  void finish_sums();
  const std::string& name(size_t g) const { return store_.groups()[g].name(); }

  ParameterStore& store_;
  RankGroups& ranks_;
  ShardingOptions options_;
  bool is_idle_ = true;
  bool is_replicated_ = true;
  bool is_train_ = false;
  bool ends_step_ = true;
  std::vector<GroupState> states_;  // by group
  std::vector<Bucket> buckets_;
  std::vector<std::vector<size_t>> enter_forward_;  // by block: groups
  std::vector<std::vector<size_t>> leave_forward_;
  std::vector<std::vector<size_t>> enter_backward_;
  std::vector<std::vector<size_t>> leave_backward_;
  std::deque<Reduction> reductions_;
  std::deque<Sum> sums_;
  std::function<void(size_t group)> use_;
};

}  // namespace tenon
