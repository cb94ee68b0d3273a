// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/optimizer_groups.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"
#include "host/text/name_pattern.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <utility>

namespace tenon {
namespace {

using nlohmann::ordered_json;

std::optional<double> decay_of(const ComponentUse& use) {
  const ordered_json options = ordered_json::parse(use.options);
  const auto decay = options.find("weight_decay");
  return decay != options.end() && decay->is_number() ? std::optional(decay->get<double>())
                                                      : std::nullopt;
}

// `group` is the index among the recipe's groups, or -1 for the default group.
PlannedPartition plan_partition(const OptimizerRecipe& recipe,
                                int group,
                                const ComponentUse& use,
                                bool no_decay) {
  PlannedPartition partition;
  partition.name = (group < 0 ? "default" : formatted("group{}", group)) +
                   std::string(no_decay ? ".no_decay" : "");
  partition.match = group < 0 ? "" : recipe.groups[static_cast<size_t>(group)].match;
  partition.use = use;
  ordered_json options = ordered_json::parse(use.options);
  const auto lr = options.find("lr");
  if (lr == options.end() || !lr->is_number()) {
    throw Error("optim.no_lr",
                use.place + ": " + use.pointer + ": optimizer '" + use.type +
                    "' has no numeric option \"lr\", so it cannot be scheduled");
  }
  partition.lr = lr->get<double>();
  if (no_decay) {
    options["weight_decay"] = 0.0;
    partition.use.options = options.dump();
  }
  return partition;
}

}  // namespace

OptimizerPlan plan_optimizers(const OptimizerRecipe& recipe, const ModelGraph& graph) {
  OptimizerPlan plan;
  // By (group or -1, no decay).
  std::map<std::pair<int, bool>, uint32_t> known;
  std::vector<bool> is_used(recipe.groups.size(), false);
  for (const ModelParameter& parameter : graph.parameters) {
    if (parameter.same_as != kNoIndex) {
      plan.partition_of.push_back(plan.partition_of[parameter.same_as]);
      continue;
    }
    int group = -1;
    for (size_t g = 0; g < recipe.groups.size() && group < 0; ++g) {
      if (matches_pattern(recipe.groups[g].match, parameter.name)) {
        group = static_cast<int>(g);
        is_used[g] = true;
      }
    }
    const ComponentUse& use =
        group < 0 ? recipe.use : recipe.groups[static_cast<size_t>(group)].use;
    // A group's own weight decay applies to flagged parameters, too.
    const bool no_decay = (parameter.flags & TENON_PARAM_NO_DECAY) != 0 &&
                          decay_of(use).has_value() &&
                          (group < 0 || decay_of(use) == decay_of(recipe.use));
    const auto [found, is_new] =
        known.try_emplace({group, no_decay}, static_cast<uint32_t>(plan.partitions.size()));
    if (is_new) {
      plan.partitions.push_back(plan_partition(recipe, group, use, no_decay));
    }
    plan.partition_of.push_back(found->second);
  }
  for (size_t g = 0; g < recipe.groups.size(); ++g) {
    if (!is_used[g]) {
      std::string names;
      for (size_t i = 0; i < graph.parameters.size() && i < 4; ++i) {
        names += (i > 0 ? ", " : "") + graph.parameters[i].name;
      }
      throw Error("optim.unmatched_group",
                  recipe.groups[g].use.place + ": " + recipe.groups[g].use.pointer +
                      ": the pattern '" + recipe.groups[g].match +
                      "' matches no parameter; the first ones are " + names);
    }
  }
  return plan;
}

std::optional<double> number_option(const std::string& options, const std::string& pointer) {
  try {
    const ordered_json values = ordered_json::parse(options);
    const ordered_json::json_pointer place(pointer);
    if (values.contains(place) && values.at(place).is_number()) {
      return values.at(place).get<double>();
    }
  } catch (const ordered_json::exception&) {
    // An invalid pointer or invalid JSON counts as no number.
  }
  return std::nullopt;
}

}  // namespace tenon
