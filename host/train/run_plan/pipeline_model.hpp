// SPDX-License-Identifier: Apache-2.0
//
// Divides the models of a plan into the stages of a pipeline, if the recipe asks for it.
// Threads: [main].
#pragma once

#include "host/model/graph.hpp"
#include "host/schedule/pipeline_schedule.hpp"
#include "host/train/run_plan/plan_context.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tenon {

// Returns the schedule of the recipe for steps of `num_microbatches`, with whole backwards; nothing
// without a pipeline.
// Errors  schedule.unreadable, schedule.invalid
std::optional<PipelineSchedule> load_pipeline(const PlanContext& context,
                                              uint32_t num_microbatches);

// Assigns the blocks of a run to the stages, and marks what other ranks have; the graph of the
// trained model alike. `read_at_end` are the values that losses and metrics read. Call it when the
// graph of the run has its final blocks.
// Errors  recipe.not_available for table rows; model.too_few_units, model.bad_stages;
//         schedule.invalid if the ranks would wait for each other's values
void cut_model(const PlanContext& context,
               const PipelineSchedule& schedule,
               std::span<const uint32_t> read_at_end,
               ModelGraph& of_run,
               ModelGraph& trained);

// Returns a line for people: "2 stages: rank 0 has embed_tokens to layers.1, ..."; "" without a
// pipeline.
std::string stages_text(const ModelGraph& graph);

}  // namespace tenon
