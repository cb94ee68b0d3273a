// SPDX-License-Identifier: Apache-2.0
//
// All meshes of a number of ranks.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace tenon {

// The degrees of a mesh.
struct Mesh {
  uint32_t replicate;
  uint32_t shard;
  uint32_t tensor;
  uint32_t context;
  uint32_t pipeline = 1;
};

// Returns the meshes with `num_ranks` ranks.
std::vector<Mesh> meshes_of(uint32_t num_ranks);

// Returns the section `parallel` of a recipe.
nlohmann::json parallel_of(const Mesh& mesh);

}  // namespace tenon
