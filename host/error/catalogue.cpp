// SPDX-License-Identifier: Apache-2.0

#include "host/error/catalogue.hpp"

#include <algorithm>
#include <array>

namespace tenon {
namespace {

constexpr auto kErrors = std::to_array<ErrorEntry>({
    {"data.bad_batch", ExitCode::kPlugin, "a dataset gave a batch that breaks its own schema"},
    {"data.bad_state", ExitCode::kRecipe, "a saved position does not fit the dataset"},
    {"data.changed", ExitCode::kRecipe, "a dataset is not what it was at the checkpoint"},
    {"data.empty", ExitCode::kRecipe, "a dataset has no sample for this rank"},
    {"data.no_tokens", ExitCode::kFailed, "a horizon in tokens over data that counts none"},
    {"device.bad_threads", ExitCode::kRecipe, "the number of compute threads is below one"},
    {"device.unavailable", ExitCode::kRecipe, "the device asked for is not there"},
    {"hook.bad_call", ExitCode::kPlugin, "a hook called a service of the run in a way it must not"},
    {"hook.bad_wish", ExitCode::kPlugin, "a hook asked for something that this release cannot do"},
    {"hook.no_metric", ExitCode::kPlugin, "a hook asked for a figure that is not there"},
    {"hook.unordered_writers",
     ExitCode::kRecipe,
     "two hooks write the same thing, and nothing orders them"},
    {"host.internal", ExitCode::kFailed, "an exception that nobody expected crossed to a plugin"},
    {"host.out_of_memory", ExitCode::kFailed, "there was no memory left"},
    {"loss.input_mismatch",
     ExitCode::kRecipe,
     "an input of a loss differs in type or axes from what it is given"},
    {"loss.late_count",
     ExitCode::kRecipe,
     "a loss counts its items too late for the way it is used"},
    {"loss.unknown_input",
     ExitCode::kRecipe,
     "an input of a loss is neither an output nor a field"},
    {"memory.exhausted", ExitCode::kFailed, "there was no memory for a plugin"},
    {"memory.null_argument",
     ExitCode::kPlugin,
     "a plugin called the memory service with a null pointer"},
    {"metric.input_mismatch",
     ExitCode::kRecipe,
     "an input of a metric has another shape or dtype than it wants"},
    {"metric.unknown_input",
     ExitCode::kRecipe,
     "an input of a metric is no output of the model and no field of the batch"},
    {"metrics.bad_name", ExitCode::kPlugin, "a figure was given under a name that is not allowed"},
    {"model.bad_graph", ExitCode::kPlugin, "a model's blocks and values do not form a graph"},
    {"model.field_mismatch",
     ExitCode::kRecipe,
     "a field differs in type or axes from what the model reads"},
    {"model.field_missing", ExitCode::kRecipe, "the dataset lacks a field that the model reads"},
    {"model.not_available",
     ExitCode::kPlugin,
     "a model wants a part that this release does not have"},
    {"model.unknown_input",
     ExitCode::kRecipe,
     "the inputs of a model name a field that it does not read"},
    {"optim.no_lr", ExitCode::kPlugin, "an optimizer has no rate that a schedule could change"},
    {"optim.unmatched_group", ExitCode::kRecipe, "a group of the optimizer matches no parameter"},
    {"options.bad_pointer",
     ExitCode::kPlugin,
     "a component looked an option up by a text that is no JSON pointer"},
    {"options.not_found", ExitCode::kPlugin, "a component looked up an option that is not there"},
    {"options.null_argument",
     ExitCode::kPlugin,
     "a component called the options service with a null pointer"},
    {"options.small_struct",
     ExitCode::kPlugin,
     "a component called the options service with too small a struct"},
    {"options.wrong_type",
     ExitCode::kPlugin,
     "a component read an option as a type that it does not have"},
    {"plugin.abi_mismatch", ExitCode::kPlugin, "a plugin wants another version of the ABI"},
    {"plugin.bad_manifest", ExitCode::kPlugin, "a plugin's manifest cannot be understood"},
    {"plugin.bad_result", ExitCode::kPlugin, "a plugin returned something it must not"},
    {"plugin.bad_schema", ExitCode::kPlugin, "a component's option schema is not a JSON Schema"},
    {"plugin.components_differ", ExitCode::kPlugin, "manifest and registered components differ"},
    {"plugin.crashed", ExitCode::kPlugin, "a plugin crashed while it was being loaded"},
    {"plugin.dir_unreadable", ExitCode::kUsage, "a plugin folder cannot be read"},
    {"plugin.duplicate_id", ExitCode::kPlugin, "two files carry the same plugin id"},
    {"plugin.entry_failed", ExitCode::kPlugin, "a plugin's entry function returned an error"},
    {"plugin.failed", ExitCode::kPlugin, "a call into a component returned an error"},
    {"plugin.hung", ExitCode::kPlugin, "a plugin did not finish loading in time"},
    {"plugin.load_failed", ExitCode::kPlugin, "the dynamic linker refused a plugin"},
    {"plugin.missing_interface", ExitCode::kPlugin, "a component lacks an interface it needs"},
    {"plugin.no_manifest", ExitCode::kPlugin, "a shared library has no Tenon manifest"},
    {"plugin.null_argument", ExitCode::kPlugin, "a plugin registered itself with a null pointer"},
    {"plugin.stuck", ExitCode::kPlugin, "a call into a component did not return in time"},
    {"plugin.torch_mismatch", ExitCode::kPlugin, "a plugin was built with another libtorch"},
    {"precision.needs_gpu",
     ExitCode::kRecipe,
     "a precision was asked for that a CPU does not have"},
    {"recipe.ambiguous_type", ExitCode::kRecipe, "several plugins offer the type"},
    {"recipe.bad_env", ExitCode::kRecipe, "a ${...} in a string cannot be understood"},
    {"recipe.bad_ref", ExitCode::kRecipe, "a {\"ref\": ...} does not lead to a fitting component"},
    {"recipe.bad_set", ExitCode::kRecipe, "a --set cannot be applied to the recipe"},
    {"recipe.bad_value", ExitCode::kRecipe, "a value is none of those allowed"},
    {"recipe.contradiction", ExitCode::kRecipe, "two keys contradict each other"},
    {"recipe.duplicate_key", ExitCode::kRecipe, "an object has the same key twice"},
    {"recipe.duplicate_name", ExitCode::kRecipe, "two entries of a list have the same name"},
    {"recipe.env_unset", ExitCode::kRecipe, "an environment variable is not set"},
    {"recipe.indivisible", ExitCode::kRecipe, "the global batch is no multiple of the microbatch"},
    {"recipe.invalid", ExitCode::kRecipe, "the recipe has several errors"},
    {"recipe.missing_key", ExitCode::kRecipe, "a key that is needed is missing"},
    {"recipe.no_eval", ExitCode::kRecipe, "there is no dataset to evaluate on"},
    {"recipe.no_horizon", ExitCode::kRecipe, "nothing says when training ends"},
    {"recipe.no_total",
     ExitCode::kRecipe,
     "the schedule needs a length that the horizon does not give"},
    {"recipe.no_variant", ExitCode::kRecipe, "a value fits none, or several, of the forms allowed"},
    {"recipe.not_available", ExitCode::kRecipe, "this release does not have that part yet"},
    {"recipe.not_utf8", ExitCode::kRecipe, "a text is not valid UTF-8"},
    {"recipe.out_of_range", ExitCode::kRecipe, "a number, a length or a count is out of range"},
    {"recipe.plugin_missing",
     ExitCode::kRecipe,
     "a plugin that \"plugins.need\" names is not there"},
    {"recipe.rejected", ExitCode::kRecipe, "a component's schema rejects its options"},
    {"recipe.syntax", ExitCode::kRecipe, "the recipe is not JSON"},
    {"recipe.too_deep", ExitCode::kRecipe, "lists and objects are nested too deep"},
    {"recipe.unknown_key", ExitCode::kRecipe, "a key that nothing reads"},
    {"recipe.unknown_type", ExitCode::kRecipe, "no plugin that was found offers the type"},
    {"recipe.unreadable", ExitCode::kRecipe, "the recipe file cannot be read"},
    {"recipe.wrong_type", ExitCode::kRecipe, "a value has the wrong JSON type"},
    {"run.dir_exists", ExitCode::kUsage, "the run folder is there already and is not empty"},
    {"run.dir_unwritable", ExitCode::kUsage, "the run folder, or a file in it, cannot be written"},
    {"run.internal", ExitCode::kFailed, "something failed that nobody expected"},
    {"run.operator_failed", ExitCode::kFailed, "an operator of libtorch failed"},
    {"run.out_of_memory", ExitCode::kFailed, "the machine has no memory left"},
    {"state.bad_entry",
     ExitCode::kPlugin,
     "an entry of a component's state breaks the rules of state"},
    {"state.missing_entry",
     ExitCode::kPlugin,
     "saved state lacks an entry that its component wants"},
    {"state.wrong_type",
     ExitCode::kPlugin,
     "an entry of saved state has another type than is asked for"},
    {"tensor.bad_argument", ExitCode::kPlugin, "an argument to a service for tensors is wrong"},
    {"tensor.op_failed", ExitCode::kPlugin, "an operator of libtorch refused what it was given"},
    {"tensor.out_of_memory", ExitCode::kFailed, "there was no memory for a tensor"},
    {"tensor.unknown_op", ExitCode::kPlugin, "no operator of libtorch has that name"},
    {"trace.unreadable", ExitCode::kUsage, "a file to compare is not a trace of events"},
    {"usage.bad_option", ExitCode::kUsage, "the command line cannot be understood"},
    {"usage.bad_set", ExitCode::kUsage, "a --set is not of the form path=value"},
    {"usage.missing_recipe", ExitCode::kUsage, "no recipe was named"},
    {"usage.no_plugin_dir", ExitCode::kUsage, "no plugin folder was named, and none is at hand"},
});

static_assert(std::ranges::is_sorted(kErrors, {}, &ErrorEntry::id), "sort the catalogue by id");
static_assert(std::ranges::adjacent_find(kErrors, {}, &ErrorEntry::id) == kErrors.end(),
              "an id stands twice in the catalogue");

}  // namespace

std::span<const ErrorEntry> all_errors() noexcept {
  return kErrors;
}

const ErrorEntry* find_error(std::string_view id) noexcept {
  const auto* const entry = std::ranges::lower_bound(kErrors, id, {}, &ErrorEntry::id);
  return entry != kErrors.end() && entry->id == id ? &*entry : nullptr;
}

ExitCode exit_code_of(std::string_view id) noexcept {
  const ErrorEntry* const entry = find_error(id);
  return entry != nullptr ? entry->exit_code : ExitCode::kFailed;
}

}  // namespace tenon
