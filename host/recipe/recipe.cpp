// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/recipe.hpp"

#include "host/error/error.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

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
                formatted("{}: /train/global_batch_size: a step of {} samples does not divide into "
                          "microbatches of {} on {}: {} = {} * {} + {}; choose a multiple of {}",
                          recipe.file,
                          global,
                          recipe.data.batch_size,
                          counted(num_ranks, "rank"),
                          global,
                          global / together,
                          together,
                          global % together,
                          together));
  }
  return global / together;
}

}  // namespace tenon
