// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/rank_role.hpp"

#include "host/error/assert.hpp"

#include <algorithm>
#include <initializer_list>

namespace tenon {
namespace {

using Dims = std::initializer_list<MeshDim>;

constexpr Dims kAll = {
    MeshDim::kTensor, MeshDim::kContext, MeshDim::kShard, MeshDim::kReplicate, MeshDim::kPipeline};
constexpr Dims kStage = {MeshDim::kTensor, MeshDim::kContext, MeshDim::kShard, MeshDim::kReplicate};
constexpr Dims kSamples = {MeshDim::kShard, MeshDim::kReplicate};
constexpr Dims kTokens = {MeshDim::kContext, MeshDim::kShard, MeshDim::kReplicate};
constexpr Dims kSums = {
    MeshDim::kContext, MeshDim::kShard, MeshDim::kReplicate, MeshDim::kPipeline};
constexpr Dims kPipeline = {MeshDim::kPipeline};
constexpr Dims kSlices = {MeshDim::kShard};
constexpr Dims kContext = {MeshDim::kContext};
constexpr Dims kTensor = {MeshDim::kTensor};
// Ranks that hold copies on the same tensor rank.
constexpr Dims kSliceCopies = {MeshDim::kContext, MeshDim::kReplicate};
constexpr Dims kWholeCopies = {MeshDim::kContext, MeshDim::kShard, MeshDim::kReplicate};

Dims dims_of(RankSet set) {
  switch (set) {
    case RankSet::kAll:
      return kAll;
    case RankSet::kStage:
      return kStage;
    case RankSet::kSamples:
      return kSamples;
    case RankSet::kTokens:
      return kTokens;
    case RankSet::kSlices:
      return kSlices;
    case RankSet::kContext:
      return kContext;
    case RankSet::kSums:
      return kSums;
    case RankSet::kPipeline:
      return kPipeline;
    case RankSet::kTensor:
      break;
  }
  return kTensor;
}

RankIndex index_along(const Mesh& mesh, Dims dims) {
  return {.index = mesh.index_along(dims), .count = mesh.size_along(dims)};
}

// Returns the ranks along `dims`, and for each of them `num_copies` adjacent tensor ranks. Tensor
// ranks have adjacent numbers.
std::vector<uint32_t> copies_along(const Mesh& mesh, Dims dims, uint32_t num_copies) {
  TENON_ASSERT(num_copies > 0 && mesh.size(MeshDim::kTensor) % num_copies == 0,
               "the number of copies divides the number of tensor ranks");
  std::vector<uint32_t> ranks;
  for (const uint32_t rank : mesh.ranks_along(dims)) {
    const uint32_t first = rank - mesh.coordinate(MeshDim::kTensor) % num_copies;
    for (uint32_t copy = 0; copy < num_copies; ++copy) {
      ranks.push_back(first + copy);
    }
  }
  return ranks;
}

RankIndex index_among(const std::vector<uint32_t>& ranks, uint32_t rank) {
  return {.index = static_cast<uint32_t>(std::ranges::find(ranks, rank) - ranks.begin()),
          .count = static_cast<uint32_t>(ranks.size())};
}

}  // namespace

std::vector<uint32_t> RankRole::ranks_of(RankSet set) const {
  return mesh_.ranks_along(dims_of(set));
}

RankIndex RankRole::index_in(RankSet set) const {
  return index_along(mesh_, dims_of(set));
}

std::vector<uint32_t> RankRole::copies_of_slice(uint32_t num_copies) const {
  return copies_along(mesh_, kSliceCopies, num_copies);
}

std::vector<uint32_t> RankRole::copies_of_whole(uint32_t num_copies) const {
  return copies_along(mesh_, kWholeCopies, num_copies);
}

RankIndex RankRole::copy_of_slice(uint32_t num_copies) const {
  return index_among(copies_of_slice(num_copies), rank());
}

RankIndex RankRole::copy_of_whole(uint32_t num_copies) const {
  return index_among(copies_of_whole(num_copies), rank());
}

uint32_t RankRole::first_copy_of(uint32_t rank, uint32_t num_copies) const {
  return copies_along(mesh_.seen_by(rank), kSliceCopies, num_copies).front();
}

}  // namespace tenon
