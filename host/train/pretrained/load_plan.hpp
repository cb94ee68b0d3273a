// SPDX-License-Identifier: Apache-2.0
//
// Maps the tensors and tables of a source to those of the run, by names and shapes. Changes
// nothing, so that a load is checked before anything is allocated. Reads tensors only to compare
// the values of tied ones.
// Invariant: all ranks make the same plan.
// Threads: the train thread.
#pragma once

#include "host/embedding/table.hpp"
#include "host/model/graph.hpp"
#include "host/plugin/instance.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/pretrained/load_source.hpp"
#include "host/train/weights/layout_map.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

// The run that receives the load.
struct LoadGoal {
  const ComponentInstance& model;
  const ModelGraph& graph;
  std::vector<TableSpec> tables;  // of the run, in order; slots are ignored
  // Position of the model in the run (joined_graph.hpp). `graph` has its own names and indices.
  uint32_t model_in_run = 0;
  std::string prefix = "";  // of its names in the run: "reference/"
  uint32_t first_parameter = 0;
  uint32_t first_buffer = 0;
  uint32_t first_parametrization = 0;
};

struct LoadPlan {
  struct Part {
    MappedWeight mapped;  // its weight is an index in `weights`
    std::shared_ptr<const TensorSource> from;
    int64_t first_element = 0;
  };
  struct Rows {
    size_t table = 0;   // index in the goal
    std::string below;  // path in the source's state
    bool has_slots = false;
  };
  std::vector<Weight> weights;  // all of the model
  std::vector<Part> parts;      // the weights to load
  std::vector<Rows> tables;
  // Parameters whose optimizer state is loaded: the name here to the name in the source.
  std::map<std::string, std::string> optimized;
  bool has_data = false;
  // Parametrizations whose effective parameter is loaded without the other reals: they start again.
  std::vector<uint32_t> started;
  std::vector<std::string> resized;   // weights that get rows for new tokens
  std::vector<std::string> kept;      // requested, but missing in the source
  std::vector<std::string> left;      // in the source, but not in the model
  std::vector<std::string> unfit;     // "head.weight: [8, 3], expected [8, 4]"
  std::vector<std::string> cautions;  // differences that only cause a warning
};

// Returns the plan of a load from an open source.
// Errors  load.mismatch if the load is strict and something does not fit (lists all misfits), if a
//         requested part is missing, or if nothing would be loaded; load.unmatched for a pattern
//         that matches no name; weights.no_layout, weights.bad_layout
LoadPlan plan_load(const LoadRecipe& load, const LoadedSource& source, const LoadGoal& goal);

// Returns this rank's share of the tensors that a plan reads. Reading a tensor throws if its
// checksum is wrong.
std::vector<std::shared_ptr<const TensorSource>> planned_sources(const LoadPlan& plan,
                                                                 const LoadedSource& source,
                                                                 uint32_t rank,
                                                                 uint32_t num_ranks);

// Returns a summary for users: "12 parameters, 2 tables (350 rows); unchanged: head.weight".
std::string plan_text(const LoadPlan& plan, int64_t num_rows);

}  // namespace tenon
