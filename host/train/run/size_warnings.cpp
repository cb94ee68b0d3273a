// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/size_warnings.hpp"

#include "host/log/log.hpp"
#include "host/recipe/component_options.hpp"
#include "host/text/formatted.hpp"
#include "host/train/run_plan/run_plan.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>

namespace tenon {

void warn_of_sizes(const RunPlan& plan) {
  const RankRole& role = plan.context.role;
  if (!role.is_first() || plan.request.is_eval_only || plan.imports_only()) {
    return;
  }
  const Recipe& recipe = plan.recipe();
  const LoopPlan& loop = plan.loop;
  const int64_t ranks = role.samples().count;
  const int64_t of_rank = recipe.data.batch_size * loop.microbatches_per_step;
  DataSource& train = plan.data.train->source();
  const bool is_sized = train.info().style == DatasetStyle::kMap && !train.info().has_windows;
  if (is_sized && train.packed() == nullptr && train.size(nullptr) < of_rank * ranks) {
    log_warning(
        formatted("a step takes {} samples, but {} has {}: an epoch is less than a step; "
                  "lower data.batch_size or the accumulation",
                  of_rank * ranks,
                  train.name(),
                  train.size(nullptr)));
  }
  if (ranks > 1 && train.packed() == nullptr && !recipe.train.global_batch_size.has_value()) {
    log_warning(
        formatted("a step takes {} samples on {} ranks, and {} on one; set "
                  "train.global_batch_size for equal steps on any number of ranks",
                  of_rank * ranks,
                  ranks,
                  of_rank));
  }
  if (!recipe.lr_scheduler.has_value() || loop.total_steps == 0) {
    return;
  }
  const auto warmup = options_of(*recipe.lr_scheduler).value("warmup_steps", nlohmann::json());
  if (warmup.is_number_integer() &&
      warmup.get<int64_t>() > static_cast<int64_t>(loop.total_steps)) {
    log_warning(
        formatted("the warmup takes {} steps, but the run has {}: it never reaches the "
                  "learning rate of the optimizer; lower warmup_steps",
                  warmup.get<int64_t>(),
                  loop.total_steps));
  }
}

}  // namespace tenon
