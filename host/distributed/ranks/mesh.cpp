// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/mesh.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <iterator>

namespace tenon {
namespace {

std::string product_text(const MeshDegrees& degrees) {
  return formatted("replicate {} x shard {}", degrees.replicate, degrees.shard);
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error("distributed.bad_mesh", what);
}

MeshDegrees resolved(MeshDegrees degrees, int64_t world_size) {
  const std::string asked = product_text(degrees);
  const std::string ranks = counted(world_size, "rank");
  for (const int64_t degree : {degrees.replicate, degrees.shard}) {
    if (degree < 1 && degree != -1) {
      refuse(asked + ": a degree must be at least 1, or -1 to derive it from the others");
    }
    if (degree > world_size) {
      refuse(formatted("{}: a degree exceeds the number of ranks, which is {}", asked, world_size));
    }
  }
  if (degrees.replicate == -1 && degrees.shard == -1) {
    refuse(asked + ": at most one degree can be -1");
  }
  int64_t& open = degrees.replicate == -1 ? degrees.replicate : degrees.shard;
  const int64_t other = degrees.replicate == -1 ? degrees.shard : degrees.replicate;
  if (open == -1) {
    if (world_size % other != 0) {
      refuse(formatted("{}: {} cannot be divided by {}", asked, ranks, other));
    }
    open = world_size / other;
  }
  if (degrees.replicate * degrees.shard != world_size) {
    refuse(formatted("{} = {}, but there {} {}",
                     product_text(degrees),
                     degrees.replicate * degrees.shard,
                     world_size == 1 ? "is" : "are",
                     ranks));
  }
  return degrees;
}

}  // namespace

Mesh::Mesh(const MeshDegrees& degrees, uint32_t world_size, uint32_t rank) : rank_(rank) {
  TENON_ASSERT(rank < world_size, "a rank is below the world size");
  const MeshDegrees sizes = resolved(degrees, world_size);
  size_[0] = static_cast<uint32_t>(sizes.replicate);
  size_[1] = static_cast<uint32_t>(sizes.shard);
  coordinate_[0] = rank / size_[1];
  coordinate_[1] = rank % size_[1];
}

std::vector<uint32_t> Mesh::ranks_along(MeshDim dim) const {
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < size(dim); ++i) {
    ranks.push_back(dim == MeshDim::kShard ? coordinate_[0] * size_[1] + i
                                           : i * size_[1] + coordinate_[1]);
  }
  return ranks;
}

std::string Mesh::text() const {
  return product_text({size_[0], size_[1]});
}

tenon_mesh Mesh::view() const {
  tenon_mesh mesh{};
  mesh.struct_size = sizeof(mesh);
  mesh.rank = rank_;
  mesh.world_size = world_size();
  std::fill(std::begin(mesh.size), std::end(mesh.size), 1U);
  for (uint32_t dim = 0; dim < 2; ++dim) {
    mesh.size[dim] = size_[dim];
    mesh.coordinate[dim] = coordinate_[dim];
  }
  return mesh;
}

}  // namespace tenon
