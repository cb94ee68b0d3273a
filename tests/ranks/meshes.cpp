// SPDX-License-Identifier: Apache-2.0
#include "tests/ranks/meshes.hpp"

namespace tenon {

std::vector<Mesh> meshes_of(uint32_t num_ranks) {
  std::vector<Mesh> meshes;
  for (uint32_t replicate = 1; replicate <= num_ranks; ++replicate) {
    for (uint32_t shard = 1; replicate * shard <= num_ranks; ++shard) {
      for (uint32_t tensor = 1; replicate * shard * tensor <= num_ranks; ++tensor) {
        for (uint32_t context = 1; replicate * shard * tensor * context <= num_ranks; ++context) {
          const uint32_t others = replicate * shard * tensor * context;
          if (num_ranks % others == 0) {
            meshes.push_back({replicate, shard, tensor, context, num_ranks / others});
          }
        }
      }
    }
  }
  return meshes;
}

nlohmann::json parallel_of(const Mesh& mesh) {
  return {{"replicate", mesh.replicate},
          {"shard", mesh.shard},
          {"tensor", mesh.tensor},
          {"context", mesh.context},
          {"pipeline", mesh.pipeline}};
}

}  // namespace tenon
