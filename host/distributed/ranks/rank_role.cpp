// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/rank_role.hpp"

#include <algorithm>
#include <initializer_list>

namespace tenon {
namespace {

std::initializer_list<MeshDim> dims_of(RankSet set) {
  static constexpr std::initializer_list<MeshDim> kAll = {MeshDim::kTensor,
                                                          MeshDim::kContext,
                                                          MeshDim::kShard,
                                                          MeshDim::kReplicate,
                                                          MeshDim::kPipeline};
  static constexpr std::initializer_list<MeshDim> kSamples = {MeshDim::kShard, MeshDim::kReplicate};
  static constexpr std::initializer_list<MeshDim> kTokens = {
      MeshDim::kContext, MeshDim::kShard, MeshDim::kReplicate};
  static constexpr std::initializer_list<MeshDim> kSlices = {MeshDim::kShard};
  static constexpr std::initializer_list<MeshDim> kReplicas = {MeshDim::kContext,
                                                               MeshDim::kReplicate};
  switch (set) {
    case RankSet::kAll:
      return kAll;
    case RankSet::kSamples:
      return kSamples;
    case RankSet::kTokens:
      return kTokens;
    case RankSet::kSlices:
      return kSlices;
    case RankSet::kReplicas:
      break;
  }
  return kReplicas;
}

constexpr std::initializer_list<MeshDim> kSliceCopies = {
    MeshDim::kTensor, MeshDim::kContext, MeshDim::kReplicate};
constexpr std::initializer_list<MeshDim> kWholeCopies = {
    MeshDim::kTensor, MeshDim::kContext, MeshDim::kShard, MeshDim::kReplicate};

RankIndex place_along(const Mesh& mesh, std::initializer_list<MeshDim> dims) {
  return {.index = mesh.index_along(dims), .count = mesh.size_along(dims)};
}

}  // namespace

std::vector<uint32_t> RankRole::ranks_of(RankSet set) const {
  return mesh_.ranks_along(dims_of(set));
}

RankIndex RankRole::place_in(RankSet set) const {
  return place_along(mesh_, dims_of(set));
}

RankIndex RankRole::copy_of_slice() const {
  return place_along(mesh_, kSliceCopies);
}

RankIndex RankRole::copy_of_whole() const {
  return place_along(mesh_, kWholeCopies);
}

uint32_t RankRole::first_copy_of(uint32_t rank) const {
  return mesh_.seen_by(rank).ranks_along(kSliceCopies).front();
}

}  // namespace tenon
