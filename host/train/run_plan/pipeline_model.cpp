// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_plan/pipeline_model.hpp"

#include "host/error/error.hpp"
#include "host/model/stages.hpp"
#include "host/schedule/load_schedule.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/train/run_plan/step_schedule.hpp"

#include <algorithm>
#include <vector>

namespace tenon {
namespace {

// Texts and exports use the graph of the trained model alone, on the parameters of the run. Blocks
// that no run needs are in the last stage.
void cut_alike(const ModelGraph& of_run, RankIndex pipeline, ModelGraph& trained) {
  trained.stage_owners = of_run.stage_owners;
  for (size_t p = 0; p < trained.parameters.size(); ++p) {
    trained.parameters[p].holders = of_run.parameters[p].holders;
    trained.parameters[p].is_elsewhere = of_run.parameters[p].is_elsewhere;
  }
  for (size_t i = 0; i < trained.buffers.size(); ++i) {
    trained.buffers[i].owner = of_run.buffers[i].owner;
  }
  for (ModelBlock& block : trained.blocks) {
    block.stage = static_cast<uint32_t>(of_run.stage_owners.size() - 1);
    block.is_elsewhere = of_run.stage_owners.back() != pipeline.index;
  }
  for (const ModelBlock& block : of_run.blocks) {
    if (block.model == 0) {
      trained.blocks[block.number].stage = block.stage;
      trained.blocks[block.number].is_elsewhere = block.is_elsewhere;
    }
  }
}

// A value goes to each of its readers, and its gradient from each of them to the one before.
std::vector<StageLink> links_of(const ModelGraph& graph, std::span<const uint32_t> read_at_end) {
  std::vector<StageLink> links;
  for (const ValueRoute& route : value_routes(graph, read_at_end)) {
    uint32_t before = route.maker;
    for (const uint32_t reader : route.readers) {
      links.push_back({.kind = StageLink::Kind::kValues, .from = route.maker, .to = reader});
      links.push_back({.kind = StageLink::Kind::kGradients, .from = reader, .to = before});
      before = reader;
    }
  }
  return links;
}

void check_lookups(const PlanContext& context, const ModelGraph& graph) {
  const auto rows = std::ranges::find_if(
      graph.values, [](const ModelValue& value) { return value.lookup.has_value(); });
  if (rows != graph.values.end()) {
    throw Error("recipe.not_available",
                formatted("/parallel/pipeline {}: the model looks up rows of the table '{}', which "
                          "this release does not send between stages; set it to 1",
                          context.recipe.parallel.pipeline,
                          rows->lookup->table));
  }
}

void check(const PipelineSchedule& schedule, const ScheduleCheck& check) {
  if (const std::optional<ScheduleProblem> problem = find_schedule_problem(schedule, check)) {
    throw Error("schedule.invalid", "/parallel/schedule: " + problem->text);
  }
}

}  // namespace

std::optional<PipelineSchedule> load_pipeline(const PlanContext& context,
                                              uint32_t num_microbatches) {
  const RankIndex pipeline = context.role.pipeline();
  if (pipeline.count == 1) {
    return std::nullopt;
  }
  const ParallelRecipe& recipe = context.recipe.parallel;
  const PipelineSchedule schedule = with_whole_backwards(
      load_schedule({.name = recipe.schedule,
                     .num_ranks = pipeline.count,
                     .num_microbatches = num_microbatches,
                     .stages_per_rank = static_cast<uint32_t>(recipe.stages_per_rank.value_or(0))},
                    {}));
  check(schedule, {});
  return schedule;
}

void cut_model(const PlanContext& context,
               const PipelineSchedule& schedule,
               std::span<const uint32_t> read_at_end,
               ModelGraph& of_run,
               ModelGraph& trained) {
  check_lookups(context, of_run);
  assign_stages(of_run, schedule.num_stages, {.patterns = context.recipe.parallel.stage_starts});
  cut_stages(of_run, schedule.ranks_of_stages(), context.role.pipeline());
  cut_alike(of_run, context.role.pipeline(), trained);
  if (const std::vector<StageLink> links = links_of(of_run, read_at_end); !links.empty()) {
    check(schedule, {.links = links});
  }
}

std::string stages_text(const ModelGraph& graph) {
  const size_t num_stages = graph.stage_owners.size();
  std::vector<std::string> texts;
  for (uint32_t stage = 0; num_stages > 1 && stage < num_stages; ++stage) {
    texts.push_back(formatted("{} on rank {} of the pipeline ({})",
                              stage,
                              graph.stage_owners[stage],
                              units_text(graph, stage)));
  }
  return texts.empty() ? "" : formatted("{} stages: {}", num_stages, joined(texts));
}

}  // namespace tenon
