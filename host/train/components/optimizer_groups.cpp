// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/optimizer_groups.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/text/name_pattern.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
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

void check_matrices(const OptimizerPlan& plan,
                    const std::vector<OptimizerInfo>& infos,
                    const ModelGraph& graph) {
  constexpr size_t kMostNames = 4;
  const ComponentUse* use = nullptr;
  std::string first;
  std::string shape;
  std::string others;
  size_t num_others = 0;
  for (size_t p = 0; p < graph.parameters.size(); ++p) {
    const ModelParameter& parameter = graph.parameters[p];
    const uint32_t partition = plan.partition_of[p];
    const bool is_frozen = (parameter.flags & TENON_PARAM_FROZEN) != 0;
    if (is_frozen || parameter.same_as != kNoIndex || parameter.shape.size() == 2 ||
        !infos[partition].has(TENON_OPTIMIZER_MATRICES_ONLY)) {
      continue;
    }
    const ComponentUse& of = plan.partitions[partition].use;
    if (use == nullptr) {
      use = &of;
      first = parameter.name;
      shape = shape_text(parameter.shape);
    } else if (of.pointer == use->pointer && ++num_others <= kMostNames) {
      others += (others.empty() ? "" : ", ") + parameter.name;
    }
  }
  if (use == nullptr) {
    return;
  }
  throw Error(
      "optim.not_a_matrix",
      formatted(
          "{}: {}: optimizer '{}' updates matrices, but the parameter '{}' has the shape {}{}; "
          "put parameters that are no matrices into a group of another optimizer: "
          "\"groups\": [{\"match\": \"{}\", \"type\": \"adamw\"}]",
          use->place,
          use->pointer,
          use->type,
          first,
          shape,
          num_others == 0 ? ""
                          : formatted(" (and {}: {}{})",
                                      counted(num_others, "more", "more"),
                                      others,
                                      num_others > kMostNames ? ", ..." : ""),
          first));
}

// Calls each step up to some number, since a schedule is a pure function, then steps further and
// further apart.
void check_own_schedules(const OptimizerPlan& plan,
                         const std::vector<OptimizerInfo>& infos,
                         const LrSchedulerProxy* scheduler,
                         uint64_t total_steps) {
  constexpr uint64_t kEachStep = 20000;
  constexpr uint64_t kFarthest = uint64_t{1} << 40;
  const auto own = std::ranges::find_if(
      infos, [](const OptimizerInfo& info) { return info.has(TENON_OPTIMIZER_OWN_SCHEDULE); });
  if (own == infos.end() || scheduler == nullptr) {
    return;
  }
  const ComponentUse& use = plan.partitions[static_cast<size_t>(own - infos.begin())].use;
  const uint64_t end = total_steps > 0 ? total_steps : kFarthest;
  double before = scheduler->factor(0, total_steps);
  for (uint64_t step = 1; step < end; step += step < kEachStep ? 1 : step / 64) {
    const double factor = scheduler->factor(step, total_steps);
    if (factor < before) {
      throw Error(
          "optim.own_schedule",
          formatted("{}: {}: optimizer '{}' replaces a schedule, but /lr_scheduler lowers the "
                    "learning rate: its factor is {} at step {} and {} before; remove "
                    "/lr_scheduler, or use \"constant\" with warmup_steps",
                    use.place,
                    use.pointer,
                    use.type,
                    factor,
                    step + 1,
                    before));
    }
    before = factor;
  }
}

std::optional<double> number_option(const std::string& options, const std::string& pointer) {
  try {
    const ordered_json values = ordered_json::parse(options);
    const ordered_json::json_pointer path(pointer);
    if (values.contains(path) && values.at(path).is_number()) {
      return values.at(path).get<double>();
    }
  } catch (const ordered_json::exception&) {
    // An invalid pointer or invalid JSON counts as no number.
  }
  return std::nullopt;
}

}  // namespace tenon
