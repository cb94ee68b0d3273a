// SPDX-License-Identifier: Apache-2.0
//
// Moves parameters and gradients between ranks as blocks need them: a block's parameters are
// gathered before it runs, while the block before it computes, and freed after; its gradients are
// reduced while backward goes on. What is kept by whom was decided by the layout of the groups
// (flat_group.hpp); when blocks run is the runner's. Nothing here knows a loss or an optimizer.
//
// The order of collectives follows from the order of blocks alone, never from what a rank computes:
// a rank without samples walks through the same blocks and sends zeros.
//
//   begin_forward; for each block: before_forward, after_forward
//   begin_backward; for each block, from the last: before_backward, after_backward
//   finish_gradients (once a step); the slices are updated; publish
//
// Invariants: between before_ and after_ of a block its parameters are whole; after
// finish_gradients each slice holds the sum over ranks and microbatches; on one rank that keeps
// all, nothing is done.
// Threads: the train thread.
#pragma once

#include "host/distributed/collectives/collective.hpp"
#include "host/distributed/collectives/group.hpp"
#include "host/distributed/ranks/mesh.hpp"
#include "host/model/parameter_store.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Who talks to whom. All are borrowed; groups of one rank are LocalGroups.
struct FlowGroups {
  Group* gather = nullptr;     // ranks along `shard`: parameters
  Group* reduce = nullptr;     // the same ranks: gradients, which do not queue behind parameters
  Group* replicate = nullptr;  // ranks along `replicate`: gradients of slices
  Group* all = nullptr;        // all of them: gradients of what is not shared out, and buffers
};

struct FlowOptions {
  // Free a block's parameters between its forward and its backward; absent: all but the last's.
  std::optional<bool> reshard_after_forward;
  int64_t bucket_bytes = 25 << 20;
  std::optional<at::ScalarType> wire_dtype;  // of fp32 gradients on their way
};

// A layout's sharing for the ranks of `mesh` and stage 1, 2 or 3 of ZeRO. `is_forced` shares out
// among one rank too, to itself.
FlatSharing sharing_of(const Mesh& mesh, int stage, bool is_forced = false);
// That of parameters which each rank keeps whole.
FlatSharing unsharded_of(const Mesh& mesh);

class ShardedParameters {
 public:
  // Lets neighbouring gradients of `store` lie side by side where they are reduced together.
  ShardedParameters(ParameterStore& store, const FlowGroups& groups, const FlowOptions& options);

  // True where nothing has to be moved: one rank that keeps all.
  bool is_idle() const { return is_idle_; }
  // True where no gradient is shared out: each rank has the same ones, to the bit.
  bool is_replicated() const { return is_replicated_; }

  // Gives all replicas the values of the first one, and all ranks the buffers of rank 0: once,
  // after the first values.
  // Errors   distributed.failed; so have all below
  void synchronise();
  // Gives all ranks the state buffers of rank 0: before a step.
  void synchronise_buffers();

  void begin_forward(bool is_train);
  void before_forward(uint32_t block);
  void after_forward(uint32_t block);

  // `ends_step`: no backward of this step comes after this one.
  void begin_backward(bool ends_step);
  void before_backward(uint32_t block);
  void after_backward(uint32_t block);

  // Frees what a pass has left, wherever it ended.
  void end_pass();

  // Waits for all gradients of the step.
  void finish_gradients();

  // After a change of the slices: what blocks see follows. Where that is kept whole, the slices
  // travel while the next forward begins.
  void publish();

  // Waits for slices that travel, where they are to be changed by somebody else than an update.
  void resolve();

  // The stored values of a group as a whole, for whoever looks at them; a collective where it is
  // shared out.
  // Shapes  [group.numel()]
  at::Tensor gather_stored(FlatGroup& group);
  // The same of its final gradients.
  at::Tensor gather_gradient(FlatGroup& group);

  // Holds what replicas keep against each other, by a hash.
  // Errors  distributed.replicas_differ: which ranks
  void check_replicas(Collective& control, const Mesh& mesh);

  // Which parameters have had a gradient on this rank, a byte each, in the order of groups and
  // entries; and what to make of it when all ranks have been heard.
  std::vector<uint8_t> has_grad() const;
  void set_has_grad(const std::vector<uint8_t>& has_grad);

 private:
  struct Way {
    bool is_kept_for_backward = false;
    std::optional<size_t> bucket;
    std::unique_ptr<Work> gather;  // under way
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
    at::Tensor sent;  // another tensor where the wire is narrower
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
  FlowGroups groups_;
  FlowOptions options_;
  bool is_idle_ = true;
  bool is_replicated_ = true;
  bool is_train_ = false;
  bool ends_step_ = true;
  std::vector<Way> ways_;  // by group
  std::vector<Bucket> buckets_;
  std::vector<std::vector<size_t>> enter_forward_;  // by block: groups
  std::vector<std::vector<size_t>> leave_forward_;
  std::vector<std::vector<size_t>> enter_backward_;
  std::vector<std::vector<size_t>> leave_backward_;
  std::deque<Reduction> reductions_;
  std::deque<Sum> sums_;
};

}  // namespace tenon
