// SPDX-License-Identifier: Apache-2.0
//
// Assigns the parameters of a model to flat groups, and computes the order and size of each group.
// Nothing is allocated here: parameter_store.hpp allocates the groups, and rank_plan.hpp counts
// their bytes.
// Invariant: the same graph and rules give the same groups for any number of ranks, also if a
// pipeline has parameters on other ranks.
#pragma once

#include <tenon/ports.h>

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
  at::ScalarType stored = at::kFloat;  // dtype in which TENON_CLASS_PARAM is stored
  at::ScalarType seen = at::kFloat;    // dtype in which blocks see TENON_CLASS_PARAM
  // Null: all parameters are in partition 0; no parameter is unsharded.
  std::function<uint32_t(uint32_t p)> partition_of = {};
  std::function<bool(uint32_t p)> is_unsharded = {};
  // Elements of a trainable parameter that a cut must not separate. Null: 1.
  std::function<int64_t(uint32_t p)> block_of = {};
};

// Resolves a dtype; `of_class` stands for any class.
inline at::ScalarType resolved_dtype(uint32_t dtype, at::ScalarType of_class) {
  return dtype >= TENON_CLASS_FIRST ? of_class : static_cast<at::ScalarType>(dtype);
}

// Dtypes in which a parameter is stored, and in which blocks see it.
struct ParameterDtypes {
  at::ScalarType stored = at::kFloat;
  at::ScalarType seen = at::kFloat;
};

// Resolves the dtypes of a parameter. `stored` and `seen` stand for TENON_CLASS_PARAM.
ParameterDtypes parameter_dtypes(const ModelParameter& parameter,
                                 at::ScalarType stored,
                                 at::ScalarType seen);

struct GroupLayout {
  std::string name;                  // of the unit, or of the parameter of a separate group
  std::vector<uint32_t> users = {};  // blocks that read a parameter of the group, ascending
  std::vector<uint32_t> blocks;      // all blocks of the users' units, ascending
  at::ScalarType stored = at::kFloat;
  at::ScalarType seen = at::kFloat;
  bool is_trainable = true;
  bool is_unsharded = false;
  uint32_t num_copies = 1;              // of each parameter (ModelParameter::num_copies)
  std::vector<uint32_t> holders = {0};  // pipeline ranks that store it (ModelParameter::holders)
  bool is_elsewhere = false;            // this rank stores nothing of it
  std::vector<uint32_t> parameters;     // sorted by partition
  std::vector<uint32_t> partitions;     // by entry of `parameters`
  std::vector<int64_t> numels;          // by entry of `parameters`
  int64_t block = 1;                    // elements that a cut must not separate

  int64_t num_elements() const;  // without gaps
  // Returns the elements of the whole buffer. Gaps align each parameter and each slice to a
  // boundary.
  int64_t flat_numel(int64_t num_slices) const;
  // Returns the end of each parameter in the whole buffer, gaps included.
  std::vector<int64_t> ends(int64_t num_slices) const;
};

// Returns the groups in the order of the blocks that use them first. A parameter that several units
// use, also by a tied name, forms a separate group. The other parameters of a unit are grouped by
// dtype, by whether they are trainable, by whether they are unsharded, by their number of copies,
// and by the pipeline ranks that store them.
std::vector<GroupLayout> lay_out_groups(const ModelGraph& graph, const GroupRules& rules);

}  // namespace tenon
