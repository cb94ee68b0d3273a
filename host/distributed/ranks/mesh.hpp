// SPDX-License-Identifier: Apache-2.0
//
// How ranks are arranged: a grid with a degree for each dimension. Neighbours in rank differ in
// `shard`, the dimension that is talked over most; `replicate` is the outermost. Nothing is sent
// here.
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

// As a recipe gives them. -1 is what the others leave; at most one may be.
struct MeshDegrees {
  int64_t replicate = 1;
  int64_t shard = -1;
};

class Mesh {
 public:
  // The mesh of one rank.
  Mesh() = default;

  // Errors  distributed.bad_mesh if the degrees do not multiply to the world size, with the
  //         arithmetic
  Mesh(const MeshDegrees& degrees, uint32_t world_size, uint32_t rank);

  uint32_t rank() const { return rank_; }
  uint32_t world_size() const { return size(MeshDim::kReplicate) * size(MeshDim::kShard); }
  uint32_t size(MeshDim dim) const { return size_[static_cast<uint32_t>(dim)]; }
  uint32_t coordinate(MeshDim dim) const { return coordinate_[static_cast<uint32_t>(dim)]; }

  // The ranks that differ from this one in `dim` alone, this one among them, by their coordinate.
  std::vector<uint32_t> ranks_along(MeshDim dim) const;

  // "replicate 2 x shard 4"
  std::string text() const;

  // As plugins see it.
  tenon_mesh view() const;

 private:
  uint32_t rank_ = 0;
  uint32_t size_[2] = {1, 1};
  uint32_t coordinate_[2] = {0, 0};
};

}  // namespace tenon
