// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/mesh.hpp"

#include "host/error/error.hpp"

#include <set>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string refusal(const MeshDegrees& degrees, uint32_t world_size) {
  try {
    const Mesh mesh(degrees, world_size, 0);
  } catch (const Error& error) {
    CHECK(std::string(error.id()) == "distributed.bad_mesh");
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a degree of -1 is what the others leave", "[distributed]") {
  const Mesh mesh({.replicate = 2, .shard = -1}, 8, 5);
  CHECK(mesh.size(MeshDim::kShard) == 4);
  CHECK(mesh.coordinate(MeshDim::kReplicate) == 1);
  CHECK(mesh.coordinate(MeshDim::kShard) == 1);
  CHECK(mesh.text() == "replicate 2 x shard 4");
}

TEST_CASE("neighbours in rank share a replica", "[distributed]") {
  const Mesh mesh({.replicate = 2, .shard = 3}, 6, 4);
  CHECK(mesh.ranks_along(MeshDim::kShard) == std::vector<uint32_t>{3, 4, 5});
  CHECK(mesh.ranks_along(MeshDim::kReplicate) == std::vector<uint32_t>{1, 4});
}

TEST_CASE("the groups along a dimension cover each rank once", "[distributed]") {
  for (const MeshDim dim : {MeshDim::kReplicate, MeshDim::kShard}) {
    std::set<std::vector<uint32_t>> groups;
    for (uint32_t rank = 0; rank < 12; ++rank) {
      groups.insert(Mesh({.replicate = 3, .shard = 4}, 12, rank).ranks_along(dim));
    }
    std::multiset<uint32_t> members;
    for (const auto& group : groups) {
      members.insert(group.begin(), group.end());
    }
    CHECK(members.size() == 12);
    CHECK(std::set<uint32_t>(members.begin(), members.end()).size() == 12);
  }
}

TEST_CASE("degrees that do not fit the ranks are refused with the arithmetic", "[distributed]") {
  CHECK_THAT(refusal({.replicate = 2, .shard = 4}, 4),
             contains_text("replicate 2 x shard 4 = 8, but there are 4 ranks"));
  CHECK_THAT(refusal({.replicate = 3, .shard = -1}, 4),
             contains_text("4 ranks cannot be divided by 3"));
  CHECK_THAT(refusal({.replicate = -1, .shard = -1}, 4), contains_text("at most one"));
  CHECK_THAT(refusal({.replicate = 0, .shard = -1}, 4), contains_text("at least 1"));
  CHECK_THAT(refusal({.replicate = 1, .shard = 1}, 2), contains_text("= 1, but there are 2 ranks"));
  CHECK_THAT(refusal({.replicate = 1LL << 62, .shard = 4}, 4), contains_text("exceeds the number"));
}

TEST_CASE("a plugin sees sizes of one where a dimension is not used", "[distributed]") {
  const tenon_mesh view = Mesh({.replicate = 1, .shard = 2}, 2, 1).view();
  CHECK(view.struct_size == sizeof(tenon_mesh));
  CHECK(view.rank == 1);
  CHECK(view.world_size == 2);
  CHECK(view.size[TENON_MESH_SHARD] == 2);
  CHECK(view.coordinate[TENON_MESH_SHARD] == 1);
  CHECK(view.size[TENON_MESH_TENSOR] == 1);
}

}  // namespace tenon
