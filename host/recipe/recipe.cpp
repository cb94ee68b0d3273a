// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/recipe.hpp"

#include "host/error/error.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

namespace tenon {
namespace {

// train_rules.cpp requires packing, and whole microbatches of one rank.
std::int64_t microbatches_of_tokens(const Recipe& recipe, std::int64_t num_ranks) {
  const std::int64_t tokens = *recipe.train.global_batch_tokens;
  const std::int64_t row = recipe.data.train.packing->length;
  const std::int64_t of_rank = recipe.data.batch_size * row;
  const std::int64_t microbatches = tokens / of_rank;
  if (microbatches % num_ranks != 0) {
    throw Error("recipe.indivisible",
                formatted("{}: /train/global_batch_tokens: a step of {} tokens does not divide "
                          "into microbatches of {} rows of {} tokens on {}: {} microbatches = {} * "
                          "{} + {}; choose a multiple of {}",
                          recipe.file,
                          tokens,
                          recipe.data.batch_size,
                          row,
                          counted(num_ranks, "rank"),
                          microbatches,
                          microbatches / num_ranks,
                          num_ranks,
                          microbatches % num_ranks,
                          of_rank * num_ranks));
  }
  return microbatches / num_ranks;
}

}  // namespace

std::string eval_prefix(const EvalSetUse& set) {
  return set.list + (set.name.empty() ? "/" : "/" + set.name + "/");
}

std::int64_t microbatches_per_step(const Recipe& recipe, std::int64_t num_ranks) {
  if (recipe.train.global_batch_tokens) {
    return microbatches_of_tokens(recipe, num_ranks);
  }
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
