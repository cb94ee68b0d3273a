// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/recipe.hpp"

#include "host/error/error.hpp"

namespace tenon {

std::string eval_prefix(const EvalSetUse& set) {
  return set.list + (set.name.empty() ? "/" : "/" + set.name + "/");
}

std::int64_t microbatches_per_step(const Recipe& recipe, std::int64_t num_ranks) {
  if (!recipe.train.global_batch_size) {
    return recipe.train.gradient_accumulation;
  }
  const std::int64_t global = *recipe.train.global_batch_size;
  const std::int64_t together = recipe.data.batch_size * num_ranks;
  if (global % together != 0) {
    throw Error("recipe.indivisible",
                recipe.file + ": /train/global_batch_size: a step of " + std::to_string(global) +
                    " samples does not divide into microbatches of " +
                    std::to_string(recipe.data.batch_size) + " on " + std::to_string(num_ranks) +
                    (num_ranks == 1 ? " rank" : " ranks") + ": " + std::to_string(global) + " = " +
                    std::to_string(global / together) + " * " + std::to_string(together) + " + " +
                    std::to_string(global % together) + "; choose a multiple of " +
                    std::to_string(together));
  }
  return global / together;
}

}  // namespace tenon
