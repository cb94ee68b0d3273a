// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/recipe.hpp"

#include "host/error/error.hpp"

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a global batch is made of microbatches of all ranks", "[recipe]") {
  Recipe recipe;
  recipe.data.batch_size = 4;
  recipe.train.gradient_accumulation = 3;
  CHECK(microbatches_per_step(recipe, 1) == 3);
  CHECK(microbatches_per_step(recipe, 8) == 3);
  recipe.train.global_batch_size = 24;
  CHECK(microbatches_per_step(recipe, 1) == 6);
  CHECK(microbatches_per_step(recipe, 2) == 3);
}

TEST_CASE("an indivisible global batch is an error with the arithmetic", "[recipe]") {
  Recipe recipe;
  recipe.file = "a.json";
  recipe.data.batch_size = 4;
  recipe.train.global_batch_size = 24;
  try {
    (void)microbatches_per_step(recipe, 4);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "recipe.indivisible");
    CHECK(
        error.message() ==
        "a.json: /train/global_batch_size: a step of 24 samples does not divide into microbatches "
        "of 4 on 4 ranks: 24 = 1 * 16 + 8; choose a multiple of 16");
  }
}

TEST_CASE("a global batch of tokens is made of rows of all ranks", "[recipe]") {
  Recipe recipe;
  recipe.file = "a.json";
  recipe.data.batch_size = 4;
  recipe.data.train.packing = PackingUse{.length = 100};
  recipe.train.global_batch_tokens = 2400;
  CHECK(microbatches_per_step(recipe, 1) == 6);
  CHECK(microbatches_per_step(recipe, 3) == 2);
  try {
    (void)microbatches_per_step(recipe, 4);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "recipe.indivisible");
    CHECK(error.message() ==
          "a.json: /train/global_batch_tokens: a step of 2400 tokens does not divide into "
          "microbatches of 4 rows of 100 tokens on 4 ranks: 6 microbatches = 1 * 4 + 2; choose a "
          "multiple of 1600");
  }
}

}  // namespace tenon
