// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/rank_role.hpp"

#include <algorithm>
#include <initializer_list>

namespace tenon {
namespace {

using Dims = std::initializer_list<MeshDim>;

constexpr Dims kAll = {
    MeshDim::kTensor, MeshDim::kContext, MeshDim::kShard, MeshDim::kReplicate, MeshDim::kPipeline};
constexpr Dims kSamples = {MeshDim::kShard, MeshDim::kReplicate};
constexpr Dims kTokens = {MeshDim::kContext, MeshDim::kShard, MeshDim::kReplicate};
constexpr Dims kSlices = {MeshDim::kShard};
constexpr Dims kContext = {MeshDim::kContext};
constexpr Dims kReplicas = {MeshDim::kContext, MeshDim::kReplicate};
// Ranks that hold equal pieces: those of RankSet, and the tensor ranks, which sum no gradients.
constexpr Dims kSliceCopies = {MeshDim::kTensor, MeshDim::kContext, MeshDim::kReplicate};
constexpr Dims kWholeCopies = {
    MeshDim::kTensor, MeshDim::kContext, MeshDim::kShard, MeshDim::kReplicate};

Dims dims_of(RankSet set) {
  switch (set) {
    case RankSet::kAll:
      return kAll;
    case RankSet::kSamples:
      return kSamples;
    case RankSet::kTokens:
      return kTokens;
    case RankSet::kSlices:
      return kSlices;
    case RankSet::kContext:
      return kContext;
    case RankSet::kReplicas:
      break;
  }
  return kReplicas;
}

RankIndex index_along(const Mesh& mesh, Dims dims) {
  return {.index = mesh.index_along(dims), .count = mesh.size_along(dims)};
}

}  // namespace

std::vector<uint32_t> RankRole::ranks_of(RankSet set) const {
  return mesh_.ranks_along(dims_of(set));
}

RankIndex RankRole::index_in(RankSet set) const {
  return index_along(mesh_, dims_of(set));
}

RankIndex RankRole::copy_of_slice() const {
  return index_along(mesh_, kSliceCopies);
}

RankIndex RankRole::copy_of_whole() const {
  return index_along(mesh_, kWholeCopies);
}

uint32_t RankRole::first_copy_of(uint32_t rank) const {
  return mesh_.seen_by(rank).ranks_along(kSliceCopies).front();
}

}  // namespace tenon
