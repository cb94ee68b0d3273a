// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/checked/function_roles.hpp"

#include <array>

namespace tenon {
namespace {

constexpr auto kFunctionRoles = std::to_array<FunctionRole>({
    {"tenon_component", "", "create", Role::kMain},
    {"tenon_component", "", "destroy", Role::kMain},
    {"tenon_component", "", "get_extension", Role::kAny},
    {"tenon_component", "", "get_table", Role::kAny},
    {"tenon_stateful", "", "version", Role::kAny},
    {"tenon_stateful", "", "snapshot", Role::kStep},
    {"tenon_stateful", "", "load", Role::kMain},
    {"tenon_dataset", "dataset", "describe", Role::kMain},
    {"tenon_dataset", "dataset", "size", Role::kMain},
    {"tenon_dataset", "dataset", "read", Role::kWorker, true},
    {"tenon_dataset", "dataset", "next", Role::kWorker, true},
    {"tenon_dataset", "dataset", "seek", Role::kMain, true},
    {"tenon_dataset", "dataset", "next_window", Role::kMain},
    {"tenon_dataset", "dataset", "reset", Role::kMain},
    {"tenon_dataset", "dataset", "lengths", Role::kWorker, true},
    {"tenon_feature", "feature", "infer", Role::kMain},
    {"tenon_feature", "feature", "run", Role::kWorker, true},
    {"tenon_generation", "model", "describe", Role::kMain},
    {"tenon_generation", "model", "step", Role::kStep, true},
    {"tenon_hook", "hook", "describe", Role::kMain},
    {"tenon_hook", "hook", "on_event", Role::kStep},
    {"tenon_loss", "loss", "describe", Role::kMain},
    {"tenon_loss", "loss", "count", Role::kStep, true},
    {"tenon_loss", "loss", "compute", Role::kStep, true},
    {"tenon_loss", "loss", "backward", Role::kStep, true},
    {"tenon_lr_scheduler", "lr_scheduler", "describe", Role::kMain},
    {"tenon_lr_scheduler", "lr_scheduler", "factor", Role::kStep},
    {"tenon_metric", "metric", "describe", Role::kMain},
    {"tenon_metric", "metric", "update", Role::kStep, true},
    {"tenon_metric", "metric", "merge", Role::kStep, true},
    {"tenon_metric", "metric", "compute", Role::kStep, true},
    {"tenon_metric", "metric", "reset", Role::kStep, true},
    {"tenon_metric_sink", "metric_sink", "open", Role::kMain},
    {"tenon_metric_sink", "metric_sink", "write", Role::kStep},
    {"tenon_metric_sink", "metric_sink", "flush", Role::kStep},
    {"tenon_metric_sink", "metric_sink", "resume", Role::kStep},
    {"tenon_model", "model", "describe", Role::kMain},
    {"tenon_model", "model", "forward", Role::kStep, true},
    {"tenon_model", "model", "backward", Role::kStep, true},
    {"tenon_model", "model", "materialize", Role::kMain, true},
    {"tenon_model", "model", "fill_buffer", Role::kMain, true},
    {"tenon_model", "model", "infer", Role::kAny, true},
    {"tenon_optimizer", "optimizer", "describe", Role::kMain},
    {"tenon_optimizer", "optimizer", "update", Role::kStep, true},
    {"tenon_optimizer", "optimizer", "evaluation_values", Role::kStep, true},
    {"tenon_parametrization", "parametrization", "describe", Role::kMain},
    {"tenon_parametrization", "parametrization", "start", Role::kMain, true},
    {"tenon_parametrization", "parametrization", "effective", Role::kStep, true},
    {"tenon_parametrization", "parametrization", "backward", Role::kStep, true},
    {"tenon_parametrization", "parametrization", "after_update", Role::kStep, true},
    {"tenon_parametrization", "parametrization", "product", Role::kStep, true},
    {"tenon_parameter_average", "hook", "update", Role::kStep, true},
    {"tenon_sample_places", "dataset", "find_place", Role::kMain},
    {"tenon_source_files", "", "list_sources", Role::kMain},
    {"tenon_sparse_optimizer", "sparse_optimizer", "describe", Role::kMain},
    {"tenon_sparse_optimizer", "sparse_optimizer", "update", Role::kWorker, true},
    {"tenon_step_sums", "model", "describe", Role::kMain},
    {"tenon_step_sums", "model", "end_step", Role::kStep, true},
    {"tenon_storage", "storage", "connect", Role::kMain},
    {"tenon_storage", "storage", "open", Role::kWorker},
    {"tenon_storage", "storage", "create_file", Role::kWorker},
    {"tenon_storage", "storage", "write", Role::kWorker},
    {"tenon_storage", "storage", "close", Role::kWorker},
    {"tenon_storage", "storage", "commit", Role::kWorker},
    {"tenon_storage", "storage", "abort", Role::kWorker},
    {"tenon_storage", "storage", "list", Role::kWorker},
    {"tenon_storage", "storage", "list_files", Role::kWorker},
    {"tenon_storage", "storage", "file_size", Role::kWorker},
    {"tenon_storage", "storage", "read", Role::kWorker},
    {"tenon_storage", "storage", "remove", Role::kWorker},
    {"tenon_storage", "storage", "address", Role::kAny},
    {"tenon_tokenizer", "tokenizer", "describe", Role::kAny},
    {"tenon_tokenizer", "tokenizer", "encode", Role::kAny},
    {"tenon_tokenizer", "tokenizer", "decode", Role::kAny},
    {"tenon_tokenizer", "tokenizer", "encode_pieces", Role::kAny},
    {"tenon_tokenizer", "tokenizer", "files", Role::kMain},
});

}  // namespace

std::span<const FunctionRole> all_function_roles() noexcept {
  return kFunctionRoles;
}

FunctionRole role_of(std::string_view kind, std::string_view function) noexcept {
  for (const FunctionRole& one : kFunctionRoles) {
    if ((one.kind.empty() || one.kind == kind) && one.function == function) {
      return one;
    }
  }
  return {.table = {}, .kind = kind, .function = function};
}

std::string_view role_name(Role role) noexcept {
  switch (role) {
    case Role::kLoad:
      return "[load]";
    case Role::kMain:
      return "[main]";
    case Role::kStep:
      return "[step]";
    case Role::kWorker:
      return "[worker]";
    case Role::kAny:
      break;
  }
  return "[any]";
}

}  // namespace tenon
