// SPDX-License-Identifier: Apache-2.0
//
// The functions of all checks, in the order of their table (check_table.cpp). Each group is defined
// in the file of its name: static_checks.cpp, load_checks.cpp and so on.
// Threads: static checks any; the others one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

// Checks of the file of a plugin. Nothing of the plugin runs.
CheckResult check_elf(Subject& subject);
CheckResult check_manifest(Subject& subject);
CheckResult check_compatible(Subject& subject);
CheckResult check_one_export(Subject& subject);
CheckResult check_unique_symbols(Subject& subject);
CheckResult check_host_symbols(Subject& subject);
CheckResult check_torch_symbols(Subject& subject);
CheckResult check_library_path(Subject& subject);
CheckResult check_runtimes(Subject& subject);
CheckResult check_text_relocations(Subject& subject);
CheckResult check_stack(Subject& subject);
CheckResult check_static_tls(Subject& subject);
CheckResult check_system_versions(Subject& subject);

// Checks of loading a plugin, and of what its entry agrees on with hosts of other releases.
CheckResult check_loads(Subject& subject);
CheckResult check_registers(Subject& subject);
CheckResult check_keeps_process(Subject& subject);
CheckResult check_beside_others(Subject& subject);
CheckResult check_entry_version(Subject& subject);
CheckResult check_newer_host(Subject& subject);
CheckResult check_unknown_ids(Subject& subject);
CheckResult check_absent_services(Subject& subject);

// Checks of the options of components: their schemas, and what `create` does with them.
CheckResult check_schemas(Subject& subject);
CheckResult check_defaults(Subject& subject);
CheckResult check_refused_values(Subject& subject);
CheckResult check_extreme_values(Subject& subject);
CheckResult check_unchecked_options(Subject& subject);

// Checks of the life of instances: creation, destruction and saved state.
CheckResult check_many_instances(Subject& subject);
CheckResult check_two_instances(Subject& subject);
CheckResult check_shutdown(Subject& subject);
CheckResult check_state_round_trip(Subject& subject);
CheckResult check_foreign_state(Subject& subject);

// The check of instances whose host fails: each service call in turn returns an error.
CheckResult check_failing_services(Subject& subject);

// Checks of the rules of calls: tensor handles, thread roles, and settings of the process. They
// repeat the calls of other checks in the checking mode of calls.
CheckResult check_call_handles(Subject& subject);
CheckResult check_call_roles(Subject& subject);
CheckResult check_call_settings(Subject& subject);

// Checks of models, block by block: graph, recompute, gradients, precision, the views, sizes and
// parts of sequences that a block may get, and steps of generation.
CheckResult check_model_graph(Subject& subject);
CheckResult check_model_results(Subject& subject);
CheckResult check_model_recompute(Subject& subject);
CheckResult check_model_gradients(Subject& subject);
CheckResult check_model_fp64(Subject& subject);
CheckResult check_model_views(Subject& subject);
CheckResult check_model_reads_only(Subject& subject);
CheckResult check_model_sizes(Subject& subject);
CheckResult check_model_tokenwise(Subject& subject);
CheckResult check_model_context(Subject& subject);
CheckResult check_model_tensor(Subject& subject);
CheckResult check_model_generation(Subject& subject);

// Checks of losses on small random inputs for their ports.
CheckResult check_loss_results(Subject& subject);
CheckResult check_loss_gradients(Subject& subject);
CheckResult check_loss_repeatable(Subject& subject);
CheckResult check_loss_additive(Subject& subject);
CheckResult check_loss_views(Subject& subject);
CheckResult check_loss_empty(Subject& subject);

// Checks of metrics on small random inputs for their ports.
CheckResult check_metric_values(Subject& subject);
CheckResult check_metric_merge(Subject& subject);
CheckResult check_metric_state(Subject& subject);
CheckResult check_metric_views(Subject& subject);
CheckResult check_metric_empty(Subject& subject);

// Checks of dense optimizers on small random parameters.
CheckResult check_optimizer_update(Subject& subject);
CheckResult check_optimizer_resume(Subject& subject);
CheckResult check_found_inf(Subject& subject);
CheckResult check_evaluation_values(Subject& subject);
CheckResult check_optimizer_pieces(Subject& subject);

// Checks of sparse optimizers on rows in memory.
CheckResult check_row_update(Subject& subject);
CheckResult check_row_independence(Subject& subject);
CheckResult check_row_resume(Subject& subject);
CheckResult check_row_found_inf(Subject& subject);
CheckResult check_row_non_finite(Subject& subject);

// Checks of parametrizations: adapters and stored weights of one matrix, or of one vector if
// they refuse matrices.
CheckResult check_started_value(Subject& subject);
CheckResult check_effective_repeatable(Subject& subject);
CheckResult check_effective_gradients(Subject& subject);
CheckResult check_effective_product(Subject& subject);

// Checks of learning rate schedules.
CheckResult check_factors(Subject& subject);
CheckResult check_pure_factors(Subject& subject);

// Checks of tokenizers on short texts.
CheckResult check_token_round_trip(Subject& subject);
CheckResult check_token_ids(Subject& subject);
CheckResult check_foreign_ids(Subject& subject);

// Checks of the order, the shards and the positions of datasets.
CheckResult check_dataset_reads(Subject& subject);
CheckResult check_dataset_order(Subject& subject);
CheckResult check_dataset_resume(Subject& subject);
CheckResult check_dataset_positions(Subject& subject);
CheckResult check_dataset_batches(Subject& subject);
CheckResult check_dataset_shards(Subject& subject);
CheckResult check_dataset_at_once(Subject& subject);

// Checks of features on columns of each type that they accept.
CheckResult check_feature_results(Subject& subject);
CheckResult check_feature_repeatable(Subject& subject);
CheckResult check_feature_rows(Subject& subject);
CheckResult check_feature_at_once(Subject& subject);

// Checks of hooks in an imagined run.
CheckResult check_hook_events(Subject& subject);
CheckResult check_hook_writes(Subject& subject);
CheckResult check_hook_state(Subject& subject);

// Checks of metric sinks, which write into temporary run folders.
CheckResult check_sink_records(Subject& subject);
CheckResult check_sink_resume(Subject& subject);
CheckResult check_sink_folder(Subject& subject);

// Checks of storages of checkpoints, in places that no run uses.
CheckResult check_storage_round_trip(Subject& subject);
CheckResult check_storage_commit(Subject& subject);
CheckResult check_storage_errors(Subject& subject);
CheckResult check_storage_at_once(Subject& subject);

// Checks that train the recipe of --recipe with the plugin, in processes of the program itself
// and on the CPU. The runs are in a temporary folder.
CheckResult check_recipe_trains(Subject& subject);
CheckResult check_recipe_repeatable(Subject& subject);
CheckResult check_recipe_resumes(Subject& subject);
CheckResult check_recipe_ranks(Subject& subject);
CheckResult check_recipe_calls(Subject& subject);
CheckResult check_recipe_fp64(Subject& subject);

}  // namespace tenon
