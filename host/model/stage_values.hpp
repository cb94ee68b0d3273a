// SPDX-License-Identifier: Apache-2.0
//
// The values of one stage of a pipeline on its rank: what it runs, reads of earlier stages and
// leaves to later ones, and where the rank needs a value for the last time. The stages of a rank
// share the values of a microbatch. Without a pipeline, the graph is one stage, and these are the
// facts of the graph.
// Threads: any; they do not change.
#pragma once

#include "host/model/graph_facts.hpp"
#include "host/model/stages.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

class StageValues {
 public:
  // `is_read_at_end` is by value: losses and metrics read it in the last stage. `facts` is
  // borrowed.
  StageValues(const GraphFacts& facts, uint32_t stage, const std::vector<bool>& is_read_at_end);

  bool has_many_stages() const { return graph_.stage_owners.size() > 1; }
  uint32_t stage() const { return stage_; }
  bool is_last() const { return stage_ + 1 == graph_.stage_owners.size(); }
  bool has(uint32_t block) const {
    return !has_many_stages() || graph_.blocks[block].stage == stage_;
  }
  // True if an earlier stage of this rank has the block.
  bool is_earlier_here(uint32_t block) const {
    const uint32_t stage = graph_.blocks[block].stage;
    return stage < stage_ && is_own(stage);
  }
  // The first block of the stage behind the unit of `block`, and the last one before it; kNoIndex
  // if there is none.
  uint32_t next(uint32_t block) const;
  uint32_t previous(uint32_t block) const;

  const StageTraffic& traffic() const { return traffic_; }
  // The values of earlier stages of this rank that the stage reads; those that such stages received
  // included.
  const std::vector<uint32_t>& inherited() const { return inherited_; }

  // The values for which the rank has no use after the block, in forward.
  const std::vector<uint32_t>& last_read_by(uint32_t block) const {
    return has_many_stages() ? last_read_[block] : facts_.last_read_by(block);
  }
  // The values for which the rank has no use once the stage has sent them.
  const std::vector<uint32_t>& last_sent() const { return last_sent_; }
  // True if the rank needs the value after the forward of its last reader here: a loss, a metric or
  // a hook may read it.
  bool stays(uint32_t value) const;
  // True if all readers are blocks of the stage.
  bool is_read_here_alone(uint32_t value) const;

 private:
  bool is_own(uint32_t stage) const {
    return graph_.stage_owners[stage] == graph_.stage_owners[stage_];
  }
  void find_last_readers();
  void find_inherited();

  const GraphFacts& facts_;
  const ModelGraph& graph_;
  const uint32_t stage_;
  const std::vector<bool> is_read_at_end_;
  StageTraffic traffic_;
  std::vector<uint32_t> inherited_;
  std::vector<std::vector<uint32_t>> last_read_;  // by block; empty without a pipeline
  std::vector<uint32_t> last_sent_;
};

}  // namespace tenon
