// SPDX-License-Identifier: Apache-2.0
//
// How the parameters of a model are put into flat groups: which go together, in what order, and how
// large a group is. Nothing is allocated here; parameter_store.hpp makes the groups, rank_plan.hpp
// counts them.
// Invariant: the same graph and rules give the same groups, whatever the number of ranks.
#pragma once

#include "host/model/graph.hpp"

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon {

// True for dtypes of fewer bytes than float32.
inline bool is_narrow(at::ScalarType dtype) {
  return c10::elementSize(dtype) < c10::elementSize(at::kFloat);
}

struct GroupRules {
  at::ScalarType stored = at::kFloat;  // of TENON_CLASS_PARAM
  at::ScalarType seen = at::kFloat;    // what blocks see of it
  // Both null: one partition, and nothing is kept whole.
  std::function<uint32_t(uint32_t p)> partition_of = {};
  std::function<bool(uint32_t p)> is_unsharded = {};
};

// How a parameter is stored, and what blocks see of it.
struct ParameterDtypes {
  at::ScalarType stored = at::kFloat;
  at::ScalarType seen = at::kFloat;
};

// `stored` and `seen` are what the run makes of TENON_CLASS_PARAM.
ParameterDtypes parameter_dtypes(const ModelParameter& parameter,
                                 at::ScalarType stored,
                                 at::ScalarType seen);

struct GroupLayout {
  std::string name;              // of the block, or of the parameter that is a group of its own
  std::vector<uint32_t> blocks;  // that use it, ascending
  at::ScalarType stored = at::kFloat;
  at::ScalarType seen = at::kFloat;
  bool is_trainable = true;
  bool is_unsharded = false;
  std::vector<uint32_t> parameters;  // those of one optimizer next to each other
  std::vector<uint32_t> partitions;  // of each of them
  std::vector<int64_t> numels;       // of each of them

  int64_t num_elements() const;  // of the parameters
  // Of the whole buffer: with gaps, so that each parameter and each slice begins on a boundary.
  int64_t flat_numel(int64_t num_slices) const;
  // Where the place of each parameter ends in it, gaps included.
  std::vector<int64_t> ends(int64_t num_slices) const;
};

// In the order of the blocks that use them first. What several blocks use, or is tied, is a group
// of its own; what is frozen is apart.
std::vector<GroupLayout> lay_out_groups(const ModelGraph& graph, const GroupRules& rules);

}  // namespace tenon
