// SPDX-License-Identifier: Apache-2.0
//
// The arrangement of ranks: a grid with a degree for each dimension. Dimensions are listed from the
// innermost one, whose ranks have adjacent numbers and communicate the most:
//
//   tensor, context, shard, replicate, pipeline
//
// `expert` is no separate dimension of the grid: it divides shard x context x tensor, so the ranks
// of one expert group have adjacent numbers. rank_role.hpp says what a rank does; nothing is sent
// here.
#pragma once

#include <tenon/exec.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace tenon {

enum class MeshDim : uint32_t {
  kReplicate = TENON_MESH_REPLICATE,
  kShard = TENON_MESH_SHARD,
  kTensor = TENON_MESH_TENSOR,
  kContext = TENON_MESH_CONTEXT,
  kPipeline = TENON_MESH_PIPELINE,
  kExpert = TENON_MESH_EXPERT,
};

// Degrees as given in a recipe. -1 means derived from the others; at most one of `replicate` and
// `shard` may be -1.
struct MeshDegrees {
  int64_t replicate = 1;
  int64_t shard = -1;
  int64_t tensor = 1;
  int64_t context = 1;
  int64_t pipeline = 1;
  int64_t expert = 1;
};

class Mesh {
 public:
  // The mesh of one rank.
  Mesh();

  // Errors  distributed.bad_mesh, with the arithmetic, if the product of the degrees without
  //         `expert` is not the world size, or if `expert` does not divide shard x context x tensor
  Mesh(const MeshDegrees& degrees, uint32_t world_size, uint32_t rank);

  uint32_t rank() const { return rank_; }
  uint32_t world_size() const { return world_size_; }
  uint32_t size(MeshDim dim) const { return size_[static_cast<uint32_t>(dim)]; }
  uint32_t coordinate(MeshDim dim) const { return coordinate_[static_cast<uint32_t>(dim)]; }

  // Returns the same mesh as `rank` sees it.
  Mesh seen_by(uint32_t rank) const;

  // Returns the ranks that differ from this one in `dims` only, and this rank, ascending. Among
  // them, the innermost dimension varies first. `dims` may be kExpert alone, not with others.
  std::vector<uint32_t> ranks_along(std::initializer_list<MeshDim> dims) const;
  // Returns the position of this rank in ranks_along(dims), and the number of those ranks.
  uint32_t index_along(std::initializer_list<MeshDim> dims) const;
  uint32_t size_along(std::initializer_list<MeshDim> dims) const;

  // "replicate 2 x shard 4"; other dimensions are named if they are used.
  std::string text() const;

  // Returns the mesh as plugins see it.
  tenon_mesh view() const;

 private:
  static constexpr uint32_t kNumDims = 6;

  void move_to(uint32_t rank);

  uint32_t rank_ = 0;
  uint32_t world_size_ = 1;
  std::array<uint32_t, kNumDims> size_{};  // by MeshDim
  std::array<uint32_t, kNumDims> coordinate_{};
};

}  // namespace tenon
