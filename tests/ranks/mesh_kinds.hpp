// SPDX-License-Identifier: Apache-2.0
//
// Kinds of recipes whose results do not depend on the mesh, and runs of them on several meshes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/ranks/mesh_recipes.hpp"

namespace tenon {

// ---- recipes of 12 steps, among them one with idle ranks ----

// 12 steps of a recipe of mesh_recipe().
nlohmann::json short_recipe(const std::string& model, const std::string& patch = "{}");
// A decoder with the sizes of the llama of mesh_recipe().
nlohmann::json decoder_recipe(const std::string& type, const std::string& options = "{}");
nlohmann::json gpt2_recipe();
// A decoder with rows of tables.
nlohmann::json memory_recipe();

// ---- runs ----

struct Kind {
  const char* name;
  nlohmann::json recipe;
  uint32_t num_ranks;
  const char* patch;  // the mesh, and what it needs
};

// Checks that runs on their meshes equal those on one rank, to `bound`; `few` of them, unless all
// members of lists run. A bound of 0 is equality to the bit.
void check_kinds(std::vector<Kind> all, size_t few, double bound = 1e-10);

}  // namespace tenon
