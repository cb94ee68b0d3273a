// SPDX-License-Identifier: Apache-2.0
//
// The models of a run, what is computed from their outputs, and who updates their values, before
// anything is allocated. Runs plan with all of it; `--plan` with the parts whose costs it needs.
// Threads: [main].
#pragma once

#include "host/embedding/table_set.hpp"
#include "host/model/graph.hpp"
#include "host/model/group_layout.hpp"
#include "host/model/parameter_store.hpp"
#include "host/model/program_runner.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/plugin/parameter_average_proxy.hpp"
#include "host/train/components/optimizer_groups.hpp"
#include "host/train/components/recipe_tables.hpp"
#include "host/train/components/reported_component.hpp"
#include "host/train/components/run_models.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/objective/metric_set.hpp"
#include "host/train/run_plan/plan_context.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tenon {

struct ModelPlan {
  std::unique_ptr<RunModels> models;
  ModelGraph graph;  // the blocks of all models that run
  std::unique_ptr<LossSet> losses;
  std::unique_ptr<MetricSet> metrics;
  TablePlan lookups;             // tables, and who looks them up
  std::vector<TableUse> tables;  // with their optimizers, in the order of `lookups`
  OptimizerPlan optimizers;
  std::vector<OptimizedPartition> partitions;    // with their optimizers, in the order of the plan
  std::optional<ParameterAverageProxy> average;  // none unless a hook averages parameters
  std::vector<bool> unsharded;                   // by parameter
  ParameterLayout layout;                        // of this rank's parameters
  RunnerOptions runner;

  const ModelGraph& trained_graph() const { return models->trained().graph; }
  ModelProxy& trained() const { return models->trained().proxy; }
  std::vector<OptimizerInfo> optimizer_infos() const;  // by partition
  // The values of the graph that losses and metrics read.
  std::vector<uint32_t> values_read() const;
};

// Losses and metrics that are not bound to values and fields yet.
struct CreatedObjective {
  std::vector<NamedLoss> losses;
  std::vector<NamedMetric> metrics;

  std::vector<ReportedComponent> reported() const;
};

// Creates the losses and metrics of the recipe.
// Errors  plugin.*; errors of the components
CreatedObjective create_objective(const PlanContext& context);

// Binds them to the values of the plan's graph, and to fields.
// Errors  loss.unknown_input, loss.input_mismatch; the same of metrics
void bind_objective(ModelPlan& plan, CreatedObjective created, const PlanContext& context);

// Creates the optimizers of tables.
// Errors  plugin.*; errors of the components
void create_table_optimizers(ModelPlan& plan, const PlanContext& context);

// Returns the groups in which parameters of the plan's graph are stored.
std::vector<GroupLayout> group_layouts(const ModelPlan& plan);

// Creates the optimizers, and decides which parameters are sharded, and how this rank stores its
// part.
// Errors  optim.*; distributed.unmatched_block; plugin.*; errors of the components
void plan_updates(ModelPlan& plan, const PlanContext& context);

// Prepares the programs of the plan's passes, and compiles that of a training. After
// plan_updates().
// Errors  as compile_program
void plan_programs(ModelPlan& plan, const PlanContext& context);

}  // namespace tenon
