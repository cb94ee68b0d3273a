// SPDX-License-Identifier: Apache-2.0
//
// Divides the models of a plan among the ranks of a tensor group, if the recipe asks for it.
// Threads: [main].
#pragma once

#include "host/model/graph.hpp"
#include "host/plugin/optimizer_proxy.hpp"
#include "host/train/components/optimizer_groups.hpp"
#include "host/train/run_plan/plan_context.hpp"

#include <string>
#include <vector>

namespace tenon {

// Divides the graph of a run, and that of the trained model alike. Call it when the graph of the
// run has all blocks of the models.
// Errors  model.indivisible; model.bad_graph
void divide_model(const PlanContext& context, ModelGraph& of_run, ModelGraph& trained);

// Lets each rank store the whole of parameters whose optimizer needs them so: one that is not
// elementwise, or whose state has blocks of elements that parts would cut.
// Shapes  infos: by partition of `optimizers`
void store_parameters_whole(const PlanContext& context,
                            const OptimizerPlan& optimizers,
                            const std::vector<OptimizerInfo>& infos,
                            ModelGraph& of_run,
                            ModelGraph& trained);

// Returns a line about the blocks that each rank of a tensor group runs whole; "" if there are
// none.
std::string whole_blocks_text(const ModelGraph& graph, RankIndex tensor);

}  // namespace tenon
