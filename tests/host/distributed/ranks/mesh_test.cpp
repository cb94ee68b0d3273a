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
  CHECK(mesh.ranks_along({MeshDim::kShard}) == std::vector<uint32_t>{3, 4, 5});
  CHECK(mesh.ranks_along({MeshDim::kReplicate}) == std::vector<uint32_t>{1, 4});
}

TEST_CASE("the groups along a dimension cover each rank once", "[distributed]") {
  for (const MeshDim dim : {MeshDim::kReplicate, MeshDim::kShard}) {
    std::set<std::vector<uint32_t>> groups;
    for (uint32_t rank = 0; rank < 12; ++rank) {
      groups.insert(Mesh({.replicate = 3, .shard = 4}, 12, rank).ranks_along({dim}));
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

TEST_CASE("dimensions vary from the innermost", "[distributed]") {
  const MeshDegrees degrees{
      .replicate = 2, .shard = 3, .tensor = 2, .context = 2, .pipeline = 2, .expert = 4};
  uint32_t rank = 0;
  for (uint32_t pipeline = 0; pipeline < 2; ++pipeline) {
    for (uint32_t replicate = 0; replicate < 2; ++replicate) {
      for (uint32_t inner = 0; inner < 12; ++inner, ++rank) {
        const Mesh mesh(degrees, 48, rank);
        CAPTURE(rank);
        CHECK(mesh.coordinate(MeshDim::kPipeline) == pipeline);
        CHECK(mesh.coordinate(MeshDim::kReplicate) == replicate);
        CHECK(mesh.coordinate(MeshDim::kShard) == inner / 4);
        CHECK(mesh.coordinate(MeshDim::kContext) == inner / 2 % 2);
        CHECK(mesh.coordinate(MeshDim::kTensor) == inner % 2);
        CHECK(mesh.coordinate(MeshDim::kExpert) == inner % 4);
      }
    }
  }
  const Mesh mesh(degrees, 48, 17);
  CHECK(mesh.text() == "pipeline 2 x replicate 2 x shard 3 x context 2 x tensor 2, expert 4");
  CHECK(mesh.ranks_along({MeshDim::kTensor}) == std::vector<uint32_t>{16, 17});
  CHECK(mesh.ranks_along({MeshDim::kContext, MeshDim::kReplicate}) ==
        std::vector<uint32_t>{5, 7, 17, 19});
  CHECK(mesh.ranks_along({MeshDim::kExpert}) == std::vector<uint32_t>{16, 17, 18, 19});
  CHECK(mesh.index_along({MeshDim::kContext, MeshDim::kReplicate}) == 2);
  CHECK(mesh.seen_by(5).ranks_along({MeshDim::kReplicate}) == std::vector<uint32_t>{5, 17});
}

TEST_CASE("degrees of all dimensions are checked", "[distributed]") {
  CHECK_THAT(refusal({.replicate = 1, .shard = 2, .tensor = 2, .pipeline = 3}, 8),
             contains_text("pipeline 3 x replicate 1 x shard 2 x tensor 2 = 12, but there are 8"));
  CHECK_THAT(refusal({.shard = -1, .tensor = 3}, 8), contains_text("cannot be divided by 3"));
  CHECK_THAT(refusal({.shard = -1, .tensor = -1}, 8), contains_text("at least 1"));
  CHECK_THAT(refusal({.shard = -1, .context = 0}, 8), contains_text("at least 1"));
  CHECK_THAT(refusal({.shard = 4, .tensor = 2, .expert = 3}, 8),
             contains_text("expert 3 does not divide shard x context x tensor, which is 8"));
  CHECK(Mesh({.replicate = -1, .shard = 2, .tensor = 2}, 8, 0).size(MeshDim::kReplicate) == 2);
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
