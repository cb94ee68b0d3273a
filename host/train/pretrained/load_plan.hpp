// SPDX-License-Identifier: Apache-2.0
//
// Which of a source's tensors and tables become which of the run's, by names and shapes. Nothing is
// read, and nothing is changed: whether a load fits is known before anything is allocated.
// Invariant: all ranks come to the same plan.
// Threads: the train thread.
#pragma once

#include "host/embedding/table.hpp"
#include "host/model/graph.hpp"
#include "host/plugin/instance.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/pretrained/load_source.hpp"
#include "host/train/weights/weight_places.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

// The run that is loaded into.
struct LoadGoal {
  const ComponentInstance& model;
  const ModelGraph& graph;
  std::vector<TableSpec> tables;  // those of the run, in their order; slots are not looked at
};

struct LoadPlan {
  struct Part {
    size_t weight = 0;  // of `weights`
    std::shared_ptr<const TensorSource> from;
    int64_t first_element = 0;
    bool is_transposed = false;
  };
  struct Rows {
    size_t table = 0;   // of the goal
    std::string below;  // where they are in the source's state
    bool has_slots = false;
  };
  std::vector<Weight> weights;  // all of the model
  std::vector<Part> parts;      // those that are loaded
  std::vector<Rows> tables;
  // Parameters whose optimizer's state is loaded, and their names there.
  std::map<std::string, std::string> optimized;
  bool has_data = false;
  std::vector<std::string> kept;      // requested, but missing in the source
  std::vector<std::string> left;      // in the source, but not in the model
  std::vector<std::string> unfit;     // "head.weight: [8, 3], expected [8, 4]"
  std::vector<std::string> cautions;  // what config.json has otherwise
};

// Errors  load.mismatch if the load is strict and something does not fit, with all that does
// not;
//         where a requested part is missing, or nothing would be loaded;
//         load.unmatched for a pattern that is about nothing; weights.no_layout, weights.bad_layout
LoadPlan plan_load(const LoadRecipe& load, const LoadedSource& source, const LoadGoal& goal);

// The tensors that a plan reads, of which this rank is to look at its share: their checksums are
// right where reading them throws nothing.
std::vector<std::shared_ptr<const TensorSource>> planned_sources(const LoadPlan& plan,
                                                                 const LoadedSource& source,
                                                                 uint32_t rank,
                                                                 uint32_t world_size);

// For people: "12 parameters, 2 tables (350 rows); unchanged: head.weight".
std::string plan_text(const LoadPlan& plan, int64_t num_rows);

}  // namespace tenon
