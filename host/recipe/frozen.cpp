// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/frozen.hpp"

#include "host/recipe/expand.hpp"
#include "host/recipe/schema_words.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxLine = 80;  // bytes of a list that stands on one line

// Of all objects outside options; what is not listed comes behind, in the order of the alphabet.
constexpr std::string_view kOrder[] = {"name",
                                       "match",
                                       "type",
                                       "seed",
                                       "deterministic",
                                       "device",
                                       "threads",
                                       "plugins",
                                       "models",
                                       "batch_size",
                                       "shuffle",
                                       "loader_threads",
                                       "prefetch",
                                       "last",
                                       "timeout_seconds",
                                       "data",
                                       "from",
                                       "do",
                                       "features",
                                       "tables",
                                       "losses",
                                       "metrics",
                                       "optimizer",
                                       "lr_scheduler",
                                       "hooks",
                                       "options",
                                       "weight",
                                       "inputs",
                                       "frozen",
                                       "groups",
                                       "steps",
                                       "epochs",
                                       "windows",
                                       "steps_per_window",
                                       "total_steps",
                                       "global_batch_size",
                                       "gradient_accumulation",
                                       "normalize",
                                       "loss_tile",
                                       "clip_grad_norm",
                                       "clip_grad_value",
                                       "precision",
                                       "non_finite",
                                       "policy",
                                       "max_in_a_row",
                                       "recompute",
                                       "log_every",
                                       "exit_at_step",
                                       "exit_after_steps",
                                       "kill_switch",
                                       "train",
                                       "format",
                                       "every_steps",
                                       "every_windows",
                                       "every_epochs",
                                       "every_minutes",
                                       "at_start",
                                       "at_end",
                                       "on_signal",
                                       "grace_seconds",
                                       "staging",
                                       "retries",
                                       "on_failure",
                                       "keep_last",
                                       "keep_every_steps",
                                       "batches",
                                       "next_window",
                                       "with_window",
                                       "keep_best",
                                       "metric",
                                       "mode",
                                       "count",
                                       "on_spike",
                                       "max_roll_backs",
                                       "exclude",
                                       "exports",
                                       "storage",
                                       "eval",
                                       "checkpoint",
                                       "path",
                                       "parts",
                                       "exclude",
                                       "rename",
                                       "to",
                                       "strict",
                                       "layout",
                                       "load",
                                       "test",
                                       "skip_windows",
                                       "replicate",
                                       "shard",
                                       "stage",
                                       "reshard_after_forward",
                                       "unsharded",
                                       "bucket_bytes",
                                       "gradient_dtype",
                                       "offload",
                                       "start_timeout_seconds",
                                       "interface",
                                       "check_collectives",
                                       "share_memory",
                                       "check_replicas_every",
                                       "parallel",
                                       "sinks"};

enum class Order { kRecipe, kAlphabet };

std::vector<std::string> ordered_keys(const json& object, Order order) {
  std::vector<std::string> keys = keys_of(object);  // in the order of the alphabet
  if (order == Order::kRecipe) {
    std::ranges::stable_sort(
        keys, {}, [](const std::string& key) { return std::ranges::find(kOrder, key) - kOrder; });
  } else {  // a component inside options reads like any other
    std::ranges::stable_partition(keys, [](const std::string& key) { return key == "type"; });
  }
  return keys;
}

std::string print_scalar(const json& value) {
  return value.is_string() ? json(escape_environment(value.get_ref<const std::string&>())).dump()
                           : value.dump();
}

void print(const json& value, std::size_t indent, Order order, std::string& text) {
  const std::string margin = "\n" + std::string(indent + 2, ' ');
  const std::string end = "\n" + std::string(indent, ' ');
  std::string_view comma;
  if (value.is_object() && !value.empty()) {
    text += '{';
    for (const std::string& key : ordered_keys(value, order)) {
      text.append(comma).append(margin).append(json(key).dump()).append(": ");
      // Inside options the alphabet is the order that no plugin can disturb.
      print(value.at(key), indent + 2, key == "options" ? Order::kAlphabet : order, text);
      comma = ",";
    }
    text.append(end).append("}");
  } else if (value.is_array() && !value.empty()) {
    std::string line;
    for (const json& entry : value) {
      line += (line.empty() ? "" : ", ") + (entry.is_structured() ? "" : print_scalar(entry));
    }
    const bool is_plain =
        std::ranges::none_of(value, [](const json& entry) { return entry.is_structured(); });
    if (is_plain && line.size() <= kMaxLine) {
      text.append("[").append(line).append("]");
      return;
    }
    text += '[';
    for (const json& entry : value) {
      text.append(comma).append(margin);
      print(entry, indent + 2, order, text);
      comma = ",";
    }
    text.append(end).append("]");
  } else {
    text += print_scalar(value);
  }
}

}  // namespace

std::string print_recipe(const json& recipe) {
  std::string text;
  print(recipe, 0, Order::kRecipe, text);
  return text + "\n";
}

}  // namespace tenon
