// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_plan/model_plan.hpp"

#include "host/text/formatted.hpp"
#include "host/train/components/sharding_options.hpp"
#include "host/train/run_plan/divided_model.hpp"

#include <string>
#include <utility>

namespace tenon {
namespace {

std::string numbered(const char* role, size_t i) {
  return formatted("{}/{}", role, i);
}

// The functions of the layout hold copies, so that it can outlive the plan.
ParameterLayout layout_of(const ModelPlan& plan,
                          const std::vector<OptimizerInfo>& infos,
                          const PlanContext& context) {
  const Recipe& recipe = context.recipe;
  const std::vector<uint32_t>& partition_of = plan.optimizers.partition_of;
  ParameterLayout layout;
  layout.dtype = context.precision.stored;
  layout.seen_dtype = context.precision.compute;
  layout.device = context.exec.device;
  layout.partition_of = [partition_of](uint32_t p) { return partition_of[p]; };
  layout.sharing = sharing_of(recipe.parallel, context.role, context.exec.device);
  layout.role = context.role;
  layout.sharing.frees_gradients = recipe.train.update_in_backward;
  layout.unsharded.frees_gradients = recipe.train.update_in_backward;
  layout.is_unsharded = [unsharded = plan.unsharded](uint32_t p) { return unsharded[p]; };
  layout.block_of = [partition_of, infos](uint32_t p) { return infos[partition_of[p]].block; };
  return layout;
}

}  // namespace

std::vector<OptimizerInfo> ModelPlan::optimizer_infos() const {
  std::vector<OptimizerInfo> infos;
  for (const OptimizedPartition& partition : partitions) {
    infos.push_back(partition.optimizer.info());
  }
  return infos;
}

std::vector<uint32_t> ModelPlan::values_read() const {
  std::vector<uint32_t> values = metrics->values_read();
  for (size_t i = 0; i < losses->size(); ++i) {
    const std::vector<uint32_t> of_loss = losses->values_read(i);
    values.insert(values.end(), of_loss.begin(), of_loss.end());
  }
  return values;
}

std::vector<ReportedComponent> CreatedObjective::reported() const {
  std::vector<ReportedComponent> lines;
  for (const NamedLoss& loss : losses) {
    lines.push_back(tenon::reported("loss", loss.proxy.instance()));
  }
  for (const NamedMetric& metric : metrics) {
    lines.push_back(tenon::reported("metric", metric.proxy.instance()));
  }
  return lines;
}

CreatedObjective create_objective(const PlanContext& context) {
  const Recipe& recipe = context.recipe;
  CreatedObjective created;
  for (size_t i = 0; i < recipe.losses.size(); ++i) {
    const LossUse& use = recipe.losses[i];
    created.losses.push_back({use.name,
                              use.weight,
                              use.inputs,
                              LossProxy(context.factory.create(use.use, numbered("losses", i)))});
  }
  for (size_t i = 0; i < recipe.metrics.size(); ++i) {
    const MetricUse& use = recipe.metrics[i];
    created.metrics.push_back(
        {use.name,
         use.inputs,
         MetricProxy(context.factory.create(use.use, numbered("metrics", i)))});
  }
  return created;
}

void bind_objective(ModelPlan& plan, CreatedObjective created, const PlanContext& context) {
  const std::string& model = context.recipe.model.name;
  plan.losses =
      std::make_unique<LossSet>(std::move(created.losses), plan.graph, model, context.exec);
  plan.metrics =
      std::make_unique<MetricSet>(std::move(created.metrics), plan.graph, model, context.exec);
}

void create_table_optimizers(ModelPlan& plan, const PlanContext& context) {
  for (const PlannedTable& table : plan.lookups.tables) {
    plan.tables.push_back(
        {table.spec,
         SparseOptimizerProxy(context.factory.create(table.optimizer, "tables/" + table.spec.name)),
         table.lr,
         table.clip_row_norm});
  }
}

void plan_updates(ModelPlan& plan, const PlanContext& context) {
  plan.optimizers = plan_optimizers(context.recipe.optimizer, plan.trained_graph());
  for (size_t i = 0; i < plan.optimizers.partitions.size(); ++i) {
    const PlannedPartition& partition = plan.optimizers.partitions[i];
    plan.partitions.push_back(
        {OptimizerProxy(context.factory.create(partition.use, numbered("optimizer", i))),
         partition.lr,
         partition.name,
         partition.match,
         partition.use.options});
  }
  const std::vector<OptimizerInfo> infos = plan.optimizer_infos();
  check_matrices(plan.optimizers, infos, plan.trained_graph());
  store_parameters_whole(context, plan.optimizers, infos, plan.graph, plan.models->trained().graph);
  std::vector<bool> needs_whole(plan.graph.parameters.size(), false);
  for (size_t p = 0; p < plan.trained_graph().parameters.size(); ++p) {
    needs_whole[p] = !infos[plan.optimizers.partition_of[p]].is_elementwise();
  }
  plan.unsharded =
      unsharded_parameters(context.recipe.parallel, plan.graph, std::move(needs_whole));
  plan.layout = layout_of(plan, infos, context);
}

std::vector<GroupLayout> group_layouts(const ModelPlan& plan) {
  const ParameterLayout& layout = plan.layout;
  return lay_out_groups(plan.graph,
                        {.stored = layout.dtype,
                         .seen = layout.seen_dtype.value_or(layout.dtype),
                         .partition_of = layout.partition_of,
                         .is_unsharded = layout.is_unsharded,
                         .block_of = layout.block_of});
}

void plan_programs(ModelPlan& plan, const PlanContext& context) {
  std::vector<bool> is_trainable(plan.graph.parameters.size(), false);
  std::vector<GroupFacts> groups;
  for (const GroupLayout& group : group_layouts(plan)) {
    groups.push_back(
        facts_of(group, group.is_unsharded ? plan.layout.unsharded : plan.layout.sharing));
    for (const uint32_t p : group.parameters) {
      is_trainable[p] = group.is_trainable;
    }
  }
  const auto is_trained = [&](uint32_t p) {
    const uint32_t tied_to = plan.graph.parameters[p].same_as;
    return static_cast<bool>(is_trainable[tied_to != kNoIndex ? tied_to : p]);
  };
  const Recipe& recipe = context.recipe;
  plan.runner.programs = std::make_shared<PassPrograms>(
      GraphFacts(plan.graph, is_trained),
      std::move(groups),
      ProgramOptions{
          .recomputed = plan.runner.recomputed,
          .keeps_attention = plan.runner.keeps_attention,
          .tiles = plan.runner.tile > 0,
          .moves_activations = recipe.train.offload_activations != ActivationOffload::kNone,
          .kept = plan.runner.kept,
          .reshard_after_forward = recipe.parallel.reshard_after_forward,
          .has_many_ranks = context.role.index_in(RankSet::kStage).count > 1});
  plan.runner.programs->of(
      PassKind::kTrain,
      plan.runner.loss_chunk > 0 ? PassPrograms::Losses::kInChunks : PassPrograms::Losses::kWhole);
}

}  // namespace tenon
