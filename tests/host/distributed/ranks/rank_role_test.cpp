// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/rank_role.hpp"

#include <array>
#include <set>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// A rank's coordinates, found by counting: pipeline, replicate, shard, context, tensor.
using Coordinates = std::array<uint32_t, 5>;

std::vector<Coordinates> coordinates_of_all(const Coordinates& sizes) {
  std::vector<Coordinates> all;
  Coordinates at{};
  for (at[0] = 0; at[0] < sizes[0]; ++at[0]) {
    for (at[1] = 0; at[1] < sizes[1]; ++at[1]) {
      for (at[2] = 0; at[2] < sizes[2]; ++at[2]) {
        for (at[3] = 0; at[3] < sizes[3]; ++at[3]) {
          for (at[4] = 0; at[4] < sizes[4]; ++at[4]) {
            all.push_back(at);
          }
        }
      }
    }
  }
  return all;
}

// Returns the ranks that agree with `rank` in all dimensions that are not free.
std::vector<uint32_t> agreeing(const std::vector<Coordinates>& all,
                               uint32_t rank,
                               const std::set<size_t>& free) {
  std::vector<uint32_t> ranks;
  for (uint32_t other = 0; other < all.size(); ++other) {
    bool agrees = true;
    for (size_t dim = 0; dim < 5; ++dim) {
      agrees = agrees && (free.contains(dim) || all[other][dim] == all[rank][dim]);
    }
    if (agrees) {
      ranks.push_back(other);
    }
  }
  return ranks;
}

constexpr size_t kPipeline = 0;
constexpr size_t kReplicate = 1;
constexpr size_t kShard = 2;
constexpr size_t kContext = 3;
constexpr size_t kTensor = 4;

RankRole role_of(const Coordinates& sizes, uint32_t num_ranks, uint32_t rank) {
  return RankRole(Mesh({.replicate = sizes[kReplicate],
                        .shard = sizes[kShard],
                        .tensor = sizes[kTensor],
                        .context = sizes[kContext],
                        .pipeline = sizes[kPipeline]},
                       num_ranks,
                       rank));
}

}  // namespace

TEST_CASE("sets of ranks are those whose other coordinates agree", "[distributed]") {
  const Coordinates sizes = GENERATE(Coordinates{1, 1, 1, 1, 1},
                                     Coordinates{1, 2, 3, 1, 1},
                                     Coordinates{2, 1, 2, 3, 1},
                                     Coordinates{3, 2, 1, 2, 2},
                                     Coordinates{2, 3, 2, 2, 3});
  const std::vector<Coordinates> all = coordinates_of_all(sizes);
  const auto num_ranks = static_cast<uint32_t>(all.size());
  const std::pair<RankSet, std::set<size_t>> sets[] = {
      {RankSet::kAll, {kPipeline, kReplicate, kShard, kContext, kTensor}},
      {RankSet::kSamples, {kReplicate, kShard}},
      {RankSet::kTokens, {kReplicate, kShard, kContext}},
      {RankSet::kStage, {kReplicate, kShard, kContext, kTensor}},
      {RankSet::kSlices, {kShard}},
      {RankSet::kContext, {kContext}},
      {RankSet::kTensor, {kTensor}},
      {RankSet::kSums, {kContext, kShard, kReplicate, kPipeline}},
      {RankSet::kPipeline, {kPipeline}}};
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    const RankRole role = role_of(sizes, num_ranks, rank);
    CAPTURE(rank);
    for (const auto& [set, free] : sets) {
      const std::vector<uint32_t> expected = agreeing(all, rank, free);
      CHECK(role.ranks_of(set) == expected);
      CHECK(role.index_in(set).count == expected.size());
      CHECK(expected.at(role.index_in(set).index) == rank);
    }
  }
}

TEST_CASE("each sample and token has one rank that answers for it", "[distributed]") {
  const Coordinates sizes{2, 3, 2, 2, 3};
  const std::vector<Coordinates> all = coordinates_of_all(sizes);
  const auto num_ranks = static_cast<uint32_t>(all.size());
  std::multiset<Coordinates> counted_samples;  // context and tensor removed
  std::multiset<Coordinates> counted_tokens;   // tensor removed
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    const RankRole role = role_of(sizes, num_ranks, rank);
    const Coordinates& at = all[rank];
    CAPTURE(rank);
    CHECK(role.samples() == RankIndex{at[kReplicate] * sizes[kShard] + at[kShard], 6});
    // Ranks with the same tokens, and only they, draw the same random numbers.
    CHECK(role.random_stream() == uint64_t{role.samples().index} * sizes[kContext] + at[kContext]);
    if (role.counts_samples()) {
      counted_samples.insert({at[kPipeline], at[kReplicate], at[kShard], 0, 0});
    }
    if (role.counts_tokens()) {
      counted_tokens.insert({at[kPipeline], at[kReplicate], at[kShard], at[kContext], 0});
    }
    CHECK(role.is_first() == (rank == 0));
  }
  // Each once, in the first stage.
  CHECK(counted_samples.size() == 6);
  CHECK(std::set<Coordinates>(counted_samples.begin(), counted_samples.end()).size() == 6);
  CHECK(counted_tokens.size() == 12);
  CHECK(std::set<Coordinates>(counted_tokens.begin(), counted_tokens.end()).size() == 12);
}

TEST_CASE("each slice and whole has one copy that answers for it", "[distributed]") {
  const Coordinates sizes = GENERATE(Coordinates{1, 2, 3, 2, 1},
                                     Coordinates{2, 3, 2, 2, 3},
                                     Coordinates{1, 2, 2, 1, 4},
                                     Coordinates{1, 1, 2, 2, 6});
  const std::vector<Coordinates> all = coordinates_of_all(sizes);
  const auto num_ranks = static_cast<uint32_t>(all.size());
  const uint32_t num_copies = GENERATE(1U, 2U, 3U, 4U, 6U);
  if (sizes[kTensor] % num_copies != 0) {
    return;
  }
  CAPTURE(sizes, num_copies);
  std::set<Coordinates> counted_slices;  // with the number of the tensor part in place of `tensor`
  std::set<Coordinates> counted_wholes;
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    const RankRole role = role_of(sizes, num_ranks, rank);
    const Coordinates& at = all[rank];
    // Ranks with the same part that agree in the pipeline stage, and for slices in the shard.
    const uint32_t part = at[kTensor] / num_copies;
    std::vector<uint32_t> of_slice;
    std::vector<uint32_t> of_whole;
    for (uint32_t other = 0; other < num_ranks; ++other) {
      if (all[other][kPipeline] == at[kPipeline] && all[other][kTensor] / num_copies == part) {
        of_whole.push_back(other);
        if (all[other][kShard] == at[kShard]) {
          of_slice.push_back(other);
        }
      }
    }
    CAPTURE(rank);
    CHECK(role.copies_of_slice(num_copies) == of_slice);
    CHECK(role.copies_of_whole(num_copies) == of_whole);
    CHECK(of_slice.at(role.copy_of_slice(num_copies).index) == rank);
    CHECK(of_whole.at(role.copy_of_whole(num_copies).index) == rank);
    CHECK(role.copy_of_slice(num_copies).count == of_slice.size());
    CHECK(role.copy_of_whole(num_copies).count == of_whole.size());
    for (const uint32_t other : of_slice) {
      CHECK(role.first_copy_of(other, num_copies) == of_slice.front());
    }
    if (role.copy_of_slice(num_copies).index == 0) {
      CHECK(counted_slices.insert({at[kPipeline], 0, at[kShard], 0, part}).second);
    }
    if (role.copy_of_whole(num_copies).index == 0) {
      CHECK(counted_wholes.insert({at[kPipeline], 0, 0, 0, part}).second);
    }
  }
  const size_t num_parts = sizes[kTensor] / num_copies;
  CHECK(counted_slices.size() == sizes[kPipeline] * sizes[kShard] * num_parts);
  CHECK(counted_wholes.size() == sizes[kPipeline] * num_parts);
}

TEST_CASE("a role without a mesh is that of the only rank", "[distributed]") {
  const RankRole role;
  CHECK(role.is_alone());
  CHECK(role.is_first());
  CHECK(role.num_ranks() == 1);
  CHECK(role.samples() == RankIndex{0, 1});
  CHECK(role.random_stream() == 0);
}

}  // namespace tenon
