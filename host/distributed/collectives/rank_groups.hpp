// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a run as one of them sees them: its role, and a named group for each purpose.
// Whatever exchanges something takes this class, and asks it for the group; rank_role.hpp says
// which ranks a group has. Invariant: groups with the same ranks and the same lane are one group,
// so a mesh that uses two dimensions opens no more connections than it needs. Threads: the train
// thread.
#pragma once

#include "host/distributed/collectives/group.hpp"
#include "host/distributed/collectives/world.hpp"
#include "host/distributed/ranks/rank_role.hpp"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace tenon {

class RankGroups {
 public:
  // A rank alone, which sends nothing.
  RankGroups();
  // Creates the groups for small values. All ranks of the world call it, as for `connect`.
  // Errors  as World::make_group
  // Owner   `world` is borrowed
  RankGroups(World& world, const RankRole& role);
  RankGroups(const RankGroups&) = delete;
  RankGroups& operator=(const RankGroups&) = delete;

  const RankRole& role() const { return role_; }

  // ---- small values, in CPU memory ----

  Group& all() { return *all_; }            // decisions, failures, files, norms
  Group& stage() { return *stage_; }        // facts about the same blocks
  Group& samples() { return *samples_; }    // windows, positions in the data
  Group& tokens() { return *tokens_; }      // numbers of hooks
  Group& sums() { return *sums_; }          // counts, losses, metrics
  Group& pipeline() { return *pipeline_; }  // what messages between stages hold

  // Creates the groups below. Call once, before the first of them is used. `copies` has each number
  // of copies on tensor ranks that a parameter has (ModelParameter::num_copies), the same on all
  // ranks; 1 and the number of tensor ranks are added.
  // Errors  as World::make_group
  void connect(c10::Device device, bool has_tables, std::span<const uint32_t> copies = {});

  // ---- tensors of the model, on the device of the run ----

  Group& gather() { return *gather_; }  // along shard: parameters
  Group& reduce() { return *reduce_; }  // along shard: gradients, in a lane of their own
  // Ranks that hold the same parameters: gradients of slices, and gradients that are not sharded.
  // `num_copies` is one of those of connect().
  Group& replicas(uint32_t num_copies) { return *copies_of(num_copies).of_slice; }
  Group& whole(uint32_t num_copies) { return *copies_of(num_copies).of_whole; }
  Group& whole() { return whole(role_.tensor().count); }  // undivided parameters, and buffers
  Group& context() { return *context_; }          // parts of sequences, in blocks and losses
  Group& tensor() { return *tensor_; }            // partial results and parts, in blocks and losses
  Group& messages() { return *messages_; }        // values and gradients between stages
  Group& stages() { return *stages_; }            // parameters and buffers of all stages
  Group& all_on_device() { return *on_device_; }  // norms, without waiting for the device

  // ---- rows of tables, on the CPU ----

  Group& rows() { return *rows_; }

  // ---- parts of batches along context, on the CPU ----

  Group& parts() { return *parts_; }

  // Makes all groups again after a failure of a collective, among the same ranks, all of which must
  // be alive and call it. Abandons every collective in progress. Groups that were taken before are
  // no longer valid.
  // Errors  distributed.unreachable if not all ranks arrive within the time limit
  void reconnect();

 private:
  // Groups of one lane share connections; those of different lanes do not queue behind each other.
  enum class Lane {
    kValues,
    kGather,
    kReduce,
    kReplicate,
    kContext,
    kTensor,
    kTensors,
    kRows,
    kParts,
    kMessages,
    kStages
  };
  struct Made {
    std::vector<uint32_t> ranks;
    Lane lane;
    std::unique_ptr<Group> group;
  };

  struct Copies {
    uint32_t num_copies = 1;
    Group* of_slice = nullptr;
    Group* of_whole = nullptr;
  };

  void connect_values();
  void connect_tensors();
  Group* make(RankSet set, Lane lane, std::string_view name, c10::Device device);
  Group* make(std::vector<uint32_t> ranks, Lane lane, std::string_view name, c10::Device device);
  const Copies& copies_of(uint32_t num_copies) const;

  World* world_ = nullptr;
  const RankRole role_;
  LocalGroup alone_;
  std::vector<Made> made_;
  bool is_connected_ = false;
  bool has_tables_ = false;
  c10::Device device_ = c10::kCPU;
  std::vector<Copies> copies_;  // by number of copies, ascending

  Group* all_ = &alone_;
  Group* stage_ = &alone_;
  Group* samples_ = &alone_;
  Group* tokens_ = &alone_;
  Group* sums_ = &alone_;
  Group* pipeline_ = &alone_;
  Group* gather_ = &alone_;
  Group* reduce_ = &alone_;
  Group* context_ = &alone_;
  Group* tensor_ = &alone_;
  Group* messages_ = &alone_;
  Group* stages_ = &alone_;
  Group* on_device_ = &alone_;
  Group* rows_ = &alone_;
  Group* parts_ = &alone_;
};

}  // namespace tenon
