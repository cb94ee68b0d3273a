// SPDX-License-Identifier: Apache-2.0
//
// Moves parameters and gradients of flat groups between ranks. The layout of the groups
// (flat_group.hpp) decides what each rank keeps; the program of a pass (compile_program.hpp)
// decides when parameters are gathered and freed, and when gradients are complete. Knows no block,
// no loss and no optimizer. Ranks along a pipeline have different groups, and exchange them only
// for inspection (gather_stored), which all ranks of the run call.
//
//   for each pass: acquire, await and free; in backward also reduce
//   finish_gradients (once per step); the slices are updated; publish
//
// Invariants: a group is whole from `await` to `free`; after finish_gradients each slice holds the
// sum over microbatches and over the ranks that have the same parameters; on one rank that keeps
// everything, nothing is done. The ranks of a group make the same calls in the same order; one
// without samples sends zeros. Threads: the train thread.
#pragma once

#include "host/distributed/collectives/rank_groups.hpp"
#include "host/model/group_facts.hpp"
#include "host/model/parameter_store.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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

// Returns which ranks share parameters of the graph.
RankGroups::Parameters shared_parameters(const ModelGraph& graph);

// Returns the sharing of sharded parameters for a rank.
FlatSharing sharing_of(const ShardingRules& rules, const RankRole& role);

class ShardedParameters {
 public:
  // Moves gradients of `store` that are reduced together into contiguous memory.
  ShardedParameters(ParameterStore& store, RankGroups& ranks, const ShardingOptions& options);

  // True if a pass moves nothing: one rank keeps all parameters of the blocks that it runs.
  bool is_idle() const { return is_idle_; }
  // True if this rank has all elements of all parameters of the run.
  bool has_all() const { return is_idle_ && ranks_.stages().is_alone(); }
  // True if no gradient is sharded, nor on other ranks of a pipeline: all ranks have bitwise equal
  // gradients.
  bool is_replicated() const { return is_replicated_; }

  // Broadcasts the values of the first copy to all copies, and the buffers of the first rank of the
  // pipeline rank that owns them to all ranks. Call it once, after initialization.
  // Errors   distributed.failed, as for all functions below
  void synchronise();
  // Gives all ranks the state buffers of the first rank of the pipeline rank that owns them: in one
  // broadcast along the ranks with the same blocks, and one for each owner along a pipeline. Call
  // it at the end of each step.
  void synchronise_buffers();
  // Adds up tensors over ranks with different tokens, in place: one all-reduce for each dtype.
  void sum_over_ranks(std::vector<at::Tensor>& tensors, const char* what);

  // ---- a pass of a microbatch (program_runner.hpp); `g` is a flat group ----

  // Starts to make a sharded group whole, unless another microbatch has it whole. Needs one `free`.
  void acquire(size_t g);
  // Waits for the gather of the group, and for that of an update.
  void await(size_t g);
  // Frees the whole parameters, unless another microbatch has acquired them.
  void free(size_t g);
  // Waits for reductions that read the memory of the group's gradients.
  void settle_gradients(size_t g);
  // Starts the reduction of the gradients of the group, which are complete. `ends_step` is true in
  // the last backward of a step.
  void reduce(size_t g, bool ends_step);
  // Calls the function of on_final_gradients.
  void use_gradients(size_t g);
  bool has_many_ranks() const { return ranks_.whole().size() > 1; }
  std::optional<bool> reshard_after_forward() const { return options_.reshard_after_forward; }

  // Waits for all gradients of the step.
  void finish_gradients();
  // Sets the function that is called in the last backward of a step for each flat group, by index,
  // once its gradients are final. For groups that free their gradients (FlatSharing).
  void on_final_gradients(std::function<void(size_t group)> use) { use_ = std::move(use); }

  // Makes changes of the slices visible to blocks. If the unsharded parameters are kept, their
  // all-gather overlaps with the start of the next forward.
  void publish();

  // Waits for pending all-gathers. Call it before anything except an update changes the slices.
  void resolve();

  // Returns the stored values of the whole parameters of a group, for inspection. A collective if
  // ranks have slices or parts of them, or if a pipeline has several ranks: the one that owns the
  // group sends them to the others.
  // Shapes  by entry: that of the parameter
  std::vector<at::Tensor> gather_stored(FlatGroup& group);
  // Same, for the final gradients of the group.
  std::vector<at::Tensor> gather_gradient(FlatGroup& group);

  // Verifies by a hash that copies store equal values.
  // Errors  distributed.replicas_differ, with the ranks
  void check_replicas();

  // `has_grad` returns one byte for each parameter, in the order of groups and entries: whether it
  // has received a gradient on this rank. `set_has_grad` sets the values combined over all ranks,
  // also of groups that are elsewhere.
  std::vector<uint8_t> has_grad() const;
  void set_has_grad(const std::vector<uint8_t>& has_grad);

 private:
  struct GroupState {
    std::optional<size_t> bucket;
    int num_users = 0;             // microbatches that have acquired the group
    std::unique_ptr<Work> gather;  // pending
    at::Tensor gathered_from;
  };
  struct Bucket {
    at::Tensor memory;
    std::string what;
    uint32_t num_copies = 1;  // of its parameters, on tensor ranks
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

  void lay_out_buckets(std::span<const size_t> order);
  at::Tensor gather_slices(const FlatGroup& group, const at::Tensor& slice, const char* what);
  std::vector<at::Tensor> gather_whole(const FlatGroup& group,
                                       const at::Tensor& slice,
                                       const char* what);
  std::vector<at::Tensor> gather_parts(const FlatGroup& group,
                                       const at::Tensor& slice,
                                       const char* what);
  Group& copies_of(const FlatGroup& group);
  const std::vector<uint32_t>& holders_of(const FlatGroup& group) const;
  void sum_over_holders();
  // Sends the whole parameters, or gradients, of a group from its owner to all ranks along the
  // pipeline.
  void share_along_pipeline(const FlatGroup& group,
                            const at::TensorOptions& options,
                            const char* what,
                            std::vector<at::Tensor>& whole);
  // Gives buffers `which` the values of rank `root` of `ranks`.
  void share_buffers(Group& ranks, uint32_t root, const std::vector<uint32_t>& which);
  at::Tensor on_wire(const at::Tensor& gradient) const;
  void finish_reduction();
  void start_sum(Group& among, const at::Tensor& target, const std::string& what);
  void finish_sums();
  const std::string& name(size_t g) const { return store_.groups()[g].name(); }

  ParameterStore& store_;
  RankGroups& ranks_;
  ShardingOptions options_;
  bool is_idle_ = false;
  bool is_replicated_ = true;
  std::vector<GroupState> states_;  // by group
  std::vector<Bucket> buckets_;
  std::vector<size_t> order_of_use_;  // groups, as the forward reaches them
  std::deque<Reduction> reductions_;
  std::deque<Sum> sums_;
  std::function<void(size_t group)> use_;
};

}  // namespace tenon
