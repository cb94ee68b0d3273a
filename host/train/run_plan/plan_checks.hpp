// SPDX-License-Identifier: Apache-2.0
//
// Checks between the parts of a plan: between components, and between them, the recipe and the
// request.
// Threads: [main].
#pragma once

namespace tenon {

struct RunPlan;

// Checks that the model has the tables whose rows are to be imported or exported.
// Errors  table.unknown
void check_import(const RunPlan& plan);
// Errors  recipe.out_of_range for a name that is too long
void check_metric_names(const RunPlan& plan);
// Checks that each data source has the fields that model, tables, losses and metrics read, and has
// samples for each rank.
// Errors  model.field_*; table.column_*; loss.*; data.empty; data.cannot_pack; data.beyond_model
void check_all_fields(const RunPlan& plan);
// Checks that data, model and losses can be divided by positions, if the recipe divides them.
// Errors  data.no_positions; model.undivided for blocks and lookups; loss.undivided
void check_context(const RunPlan& plan);
// Logs which blocks run whole, if the recipe divides blocks among ranks.
// Errors  recipe.not_available for a model that looks up tables
void check_tensor(const RunPlan& plan);
// Logs which rank has which stage, if the recipe divides the model into stages.
// Errors  recipe.not_available for a model that looks up tables
void check_pipeline(const RunPlan& plan);
// Errors  recipe.contradiction for keys that need windows if the data has none
void check_windows(const RunPlan& plan);
// Checks that losses, optimizers and the schedule fit the steps of the loop.
// Errors  loss.*; optim.*
void check_loop(const RunPlan& plan);

}  // namespace tenon
