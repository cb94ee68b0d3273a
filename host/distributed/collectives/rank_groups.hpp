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
#include <map>
#include <memory>
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

  Group& all() { return *values_.all; }            // decisions, failures, files, norms
  Group& stage() { return *values_.stage; }        // facts about the same blocks
  Group& samples() { return *values_.samples; }    // windows, positions in the data
  Group& tokens() { return *values_.tokens; }      // numbers of hooks
  Group& sums() { return *values_.sums; }          // counts, losses, metrics
  Group& pipeline() { return *values_.pipeline; }  // what messages between stages hold

  // Where parameters of a model are, the same on all ranks.
  struct Parameters {
    // Each number of copies on tensor ranks that one has (ModelParameter::num_copies); 1 and the
    // number of tensor ranks are added.
    std::vector<uint32_t> copies = {};
    // Each set of several pipeline ranks that have one (ModelParameter::holders).
    std::vector<std::vector<uint32_t>> holders = {};
  };
  // Creates the groups below. Call once, before the first of them is used.
  // Errors  as World::make_group
  void connect(c10::Device device, bool has_tables, const Parameters& parameters);
  void connect(c10::Device device, bool has_tables) { connect(device, has_tables, {}); }

  // ---- tensors of the model, on the device of the run ----

  Group& gather() { return *tensors_.gather; }  // along shard: parameters
  Group& reduce() { return *tensors_.reduce; }  // along shard: gradients, in a lane of their own
  // Ranks that hold the same parameters: gradients of slices, and gradients that are not sharded.
  // `num_copies` is one of those of connect().
  Group& replicas(uint32_t num_copies) { return *copies_of(num_copies).of_slice; }
  Group& whole(uint32_t num_copies) { return *copies_of(num_copies).of_whole; }
  // Pipeline ranks that have a parameter of several stages: `holders` is one of those of connect(),
  // and has this rank.
  Group& holders(const std::vector<uint32_t>& holders);
  Group& whole() { return whole(role_.tensor().count); }  // undivided parameters, and buffers
  Group& context() { return *tensors_.context; }  // parts of sequences, in blocks and losses
  Group& tensor() { return *tensors_.tensor; }    // partial results and parts, in blocks and losses
  Group& messages() { return *tensors_.messages; }  // values and gradients between stages
  Group& stages() { return *tensors_.stages; }      // parameters and buffers of all stages
  Group& all_on_device() { return *tensors_.all; }  // norms, without waiting for the device

  // ---- rows of tables, on the CPU ----

  Group& rows() { return *tensors_.rows; }

  // ---- parts of batches along context, on the CPU ----

  Group& parts() { return *tensors_.parts; }

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
  std::map<std::vector<uint32_t>, Group*> holders_;

  // For small values.
  struct Values {
    Group* all;
    Group* stage;
    Group* samples;
    Group* tokens;
    Group* sums;
    Group* pipeline;
  };
  // For tensors.
  struct Tensors {
    Group* gather;
    Group* reduce;
    Group* context;
    Group* tensor;
    Group* messages;
    Group* stages;
    Group* all;
    Group* rows;
    Group* parts;
  };
  Values values_{&alone_, &alone_, &alone_, &alone_, &alone_, &alone_};
  Tensors tensors_{&alone_, &alone_, &alone_, &alone_, &alone_, &alone_, &alone_, &alone_, &alone_};
};

}  // namespace tenon
