// SPDX-License-Identifier: Apache-2.0
//
// The arrangement of ranks: a grid with a degree for each dimension. Ranks with adjacent numbers
// differ in `shard`, the dimension with the most communication; `replicate` is the outermost
// dimension. Nothing is sent here.
#pragma once

#include <tenon/exec.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

enum class MeshDim : uint32_t {
  kReplicate = TENON_MESH_REPLICATE,
  kShard = TENON_MESH_SHARD,
};

// Degrees as given in a recipe. -1 means derived from the other degree; at most one may be -1.
struct MeshDegrees {
  int64_t replicate = 1;
  int64_t shard = -1;
};

class Mesh {
 public:
  // The mesh of one rank.
  Mesh() = default;

  // Errors  distributed.bad_mesh, with the arithmetic, if the product of the degrees is not the
  //         world size
  Mesh(const MeshDegrees& degrees, uint32_t world_size, uint32_t rank);

  uint32_t rank() const { return rank_; }
  uint32_t world_size() const { return size(MeshDim::kReplicate) * size(MeshDim::kShard); }
  uint32_t size(MeshDim dim) const { return size_[static_cast<uint32_t>(dim)]; }
  uint32_t coordinate(MeshDim dim) const { return coordinate_[static_cast<uint32_t>(dim)]; }

  // Returns the ranks that differ from this one in `dim` only, and this rank, by coordinate.
  std::vector<uint32_t> ranks_along(MeshDim dim) const;

  // "replicate 2 x shard 4"
  std::string text() const;

  // Returns the mesh as plugins see it.
  tenon_mesh view() const;

 private:
  uint32_t rank_ = 0;
  uint32_t size_[2] = {1, 1};
  uint32_t coordinate_[2] = {0, 0};
};

}  // namespace tenon
