// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/rank_groups.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <map>

#include "tests/support/catch.hpp"  // after libtorch, which has a CHECK of its own
#include "tests/support/thread_ranks.hpp"
#include "tests/support/world_ranks.hpp"

namespace tenon {
namespace {

using Texts = std::vector<std::string>;

RankRole role_of(const MeshDegrees& degrees, World& world) {
  return RankRole(Mesh(degrees, world.size(), world.rank()));
}

// The numbers of the ranks that a group adds up, as bits.
int64_t members_of(Group& group, uint32_t rank) {
  at::Tensor bit = at::full({3}, int64_t{1} << rank, at::kLong);
  group.all_reduce(bit, "members")->wait();
  return bit[1].item<int64_t>();
}

int64_t bits_of(const std::vector<uint32_t>& ranks) {
  int64_t bits = 0;
  for (const uint32_t rank : ranks) {
    bits |= int64_t{1} << rank;
  }
  return bits;
}

// A tensor that no other transfer has.
at::Tensor tensor_of(uint32_t from, uint32_t to, int64_t number, int64_t count) {
  return at::arange(count, at::kDouble) +
         (1e6 * from + 1e4 * to + 1e9 * static_cast<double>(number));
}

}  // namespace

TEST_CASE("a rank alone has groups that send nothing", "[distributed]") {
  RankGroups ranks;
  ranks.connect(c10::kCPU, true);
  CHECK(ranks.role().is_alone());
  for (Group* const group : {&ranks.all(),
                             &ranks.samples(),
                             &ranks.tokens(),
                             &ranks.gather(),
                             &ranks.reduce(),
                             &ranks.stage(),
                             &ranks.replicas(1),
                             &ranks.whole(1),
                             &ranks.whole(),
                             &ranks.context(),
                             &ranks.tensor(),
                             &ranks.all_on_device(),
                             &ranks.rows(),
                             &ranks.parts()}) {
    CHECK(group->is_alone());
  }
  ranks.reconnect();
  CHECK(ranks.all().gather_texts("a", "x") == Texts{"a"});
}

TEST_CASE("each named group has the ranks of its role", "[distributed][ranks]") {
  const MeshDegrees degrees = GENERATE(MeshDegrees{.replicate = 2, .shard = 2},
                                       MeshDegrees{.replicate = 2, .shard = 2, .tensor = 2},
                                       MeshDegrees{.replicate = 1, .shard = 2, .tensor = 4},
                                       MeshDegrees{.replicate = 1, .shard = 2, .context = 2},
                                       MeshDegrees{.replicate = 2, .shard = 1, .pipeline = 2},
                                       MeshDegrees{.replicate = 1, .shard = 2, .pipeline = 3});
  const auto size = static_cast<uint32_t>(degrees.replicate * degrees.shard * degrees.tensor *
                                          degrees.context * degrees.pipeline);
  std::vector<std::vector<bool>> are_right(size);
  RankGroups::Parameters parameters;
  std::vector<uint32_t>& copies = parameters.copies;
  for (uint32_t num_copies = 1; num_copies <= degrees.tensor; num_copies *= 2) {
    copies.push_back(num_copies);
  }
  const bool has_three = degrees.pipeline == 3;
  if (has_three) {
    parameters.holders = {{0, 2}, {0, 1, 2}};
  }
  run_ranks(degrees, size, parameters, [&](RankGroups& ranks) {
    const RankRole& role = ranks.role();
    const uint32_t rank = role.rank();
    const auto has = [&](Group& group, RankSet set) {
      return members_of(group, rank) == bits_of(role.ranks_of(set)) &&
             group.rank() == role.index_in(set).index;
    };
    are_right[rank] = {has(ranks.all(), RankSet::kAll),
                       has(ranks.stage(), RankSet::kStage),
                       has(ranks.samples(), RankSet::kSamples),
                       has(ranks.tokens(), RankSet::kTokens),
                       has(ranks.sums(), RankSet::kSums),
                       has(ranks.pipeline(), RankSet::kPipeline),
                       has(ranks.messages(), RankSet::kPipeline),
                       has(ranks.stages(), RankSet::kPipeline),
                       has(ranks.gather(), RankSet::kSlices),
                       has(ranks.reduce(), RankSet::kSlices),
                       has(ranks.whole(), RankSet::kStage),
                       has(ranks.tensor(), RankSet::kTensor),
                       has(ranks.all_on_device(), RankSet::kAll),
                       has(ranks.rows(), RankSet::kTokens),
                       has(ranks.context(), RankSet::kContext),
                       has(ranks.parts(), RankSet::kContext)};
    for (const uint32_t num_copies : copies) {
      Group& replicas = ranks.replicas(num_copies);
      Group& whole = ranks.whole(num_copies);
      are_right[rank].push_back(
          members_of(replicas, rank) == bits_of(role.copies_of_slice(num_copies)) &&
          replicas.rank() == role.copy_of_slice(num_copies).index &&
          members_of(whole, rank) == bits_of(role.copies_of_whole(num_copies)) &&
          whole.rank() == role.copy_of_whole(num_copies).index);
    }
    if (has_three) {
      const std::vector<uint32_t> pipeline = role.ranks_of(RankSet::kPipeline);
      const bool is_between = role.pipeline().index == 1;
      are_right[rank].push_back(is_between ? ranks.holders({0, 2}).is_alone()
                                           : members_of(ranks.holders({0, 2}), rank) ==
                                                 bits_of({pipeline[0], pipeline[2]}));
      are_right[rank].push_back(members_of(ranks.holders({0, 1, 2}), rank) == bits_of(pipeline));
    }
  });
  for (const auto& of_rank : are_right) {
    CHECK(of_rank == std::vector<bool>(16 + copies.size() + (has_three ? 2 : 0), true));
  }
}

TEST_CASE("groups with the same ranks and lane are one group", "[distributed][ranks]") {
  std::vector<bool> are_shared(4);
  run_ranks({.replicate = 2, .shard = 2}, 4, [&](RankGroups& ranks) {
    are_shared[ranks.role().rank()] =
        &ranks.samples() == &ranks.all() && &ranks.tokens() == &ranks.all() &&
        &ranks.stage() == &ranks.all() && &ranks.whole() == &ranks.all_on_device() &&
        &ranks.whole(1) == &ranks.whole() && &ranks.gather() != &ranks.reduce();
  });
  CHECK(are_shared == std::vector<bool>(4, true));
}

TEST_CASE("ranks send tensors to each other beside collectives", "[distributed][multi-rank]") {
  constexpr uint32_t kRanks = 3;
  const int64_t count = GENERATE(0, 1, 1000, 3'000'000);
  CAPTURE(count);
  std::atomic<int> num_wrong = 0;
  CHECK(on_worlds(kRanks, short_limits(), [&](World& world) {
          const std::vector<uint32_t> all = {0, 1, 2};
          const auto group = world.make_group(all, "stages", at::kCPU);
          const uint32_t rank = world.rank();
          // Each rank sends two tensors to each other rank; all are under way at once.
          std::vector<std::unique_ptr<Work>> works;
          std::vector<std::pair<at::Tensor, at::Tensor>> received;  // and what was to be
          std::vector<at::Tensor> sent;
          for (int64_t number = 0; number < 2; ++number) {
            for (uint32_t other = 0; other < kRanks; ++other) {
              if (other == rank) {
                continue;
              }
              sent.push_back(tensor_of(rank, other, number, count));
              works.push_back(group->send(sent.back(), other, "activations"));
              received.emplace_back(at::zeros({count}, at::kDouble),
                                    tensor_of(other, rank, number, count));
              works.push_back(group->receive(received.back().first, other, "activations"));
            }
          }
          at::Tensor whole = at::ones({1000});
          group->all_reduce(whole, "gradients")->wait();
          num_wrong += whole.eq(kRanks).all().item<bool>() ? 0 : 1;
          for (auto work = works.rbegin(); work != works.rend(); ++work) {  // in another order
            (*work)->wait();
          }
          for (const auto& [got, wanted] : received) {
            num_wrong += at::equal(got, wanted) ? 0 : 1;
          }
          num_wrong += world.traffic().send == 4 * count * 8 ? 0 : 1;
          world.leave();
        }) == Texts(kRanks));
  CHECK(num_wrong == 0);
}

TEST_CASE("a tensor that one rank awaits does not hold back the tensors of others",
          "[distributed][multi-rank]") {
  // Rank 0 awaits rank 2 first, which sends only once rank 1 has got a tensor of rank 0.
  CHECK(on_worlds(3, short_limits(), [&](World& world) {
          const std::vector<uint32_t> all = {0, 1, 2};
          const auto group = world.make_group(all, "stages", at::kCPU);
          at::Tensor one = at::full({100}, static_cast<double>(world.rank()));
          if (world.rank() == 0) {
            at::Tensor late = at::zeros({100});
            const auto receiving = group->receive(late, 2, "late");
            group->send(one, 1, "early")->wait();
            receiving->wait();
            if (!late.eq(2).all().item<bool>()) {
              throw std::runtime_error("another tensor");
            }
          } else if (world.rank() == 1) {
            at::Tensor early = at::ones({100});
            group->receive(early, 0, "early")->wait();
            group->send(early, 2, "passed on")->wait();
          } else {
            at::Tensor passed = at::ones({100});
            group->receive(passed, 1, "passed on")->wait();
            group->send(one, 0, "late")->wait();
          }
          world.leave();
        }) == Texts(3));
}

TEST_CASE("a rank that a sender waits for is named", "[distributed][multi-rank]") {
  WorldOptions options = short_limits();
  options.timeout = std::chrono::milliseconds(1500);
  std::barrier over(3);
  const Texts thrown = on_worlds(3, options, [&](World& world) {
    const std::vector<uint32_t> all = {0, 1, 2};
    const auto group = world.make_group(all, "stages", at::kCPU);
    world.end_start();
    at::Tensor whole = at::ones({100});
    std::exception_ptr failure;
    if (world.rank() == 2) {
      try {
        group->receive(whole, 1, "activations")->wait();
      } catch (const std::exception&) {
        failure = std::current_exception();
      }
    }
    over.arrive_and_wait();
    if (failure != nullptr) {
      std::rethrow_exception(failure);
    }
  });
  CHECK(thrown[0].empty());
  CHECK_THAT(thrown[2], contains_text("receive 1 of group \"stages 1 to 2\" (activations)"));
  CHECK_THAT(thrown[2], contains_text("no answer from rank 1"));
}

TEST_CASE("groups can be made again after a failure", "[distributed][multi-rank]") {
  constexpr uint32_t kRanks = 4;
  const MeshDegrees degrees{.replicate = 2, .shard = 2};
  std::vector<std::vector<std::string>> failures(kRanks);
  std::atomic<int> num_wrong = 0;
  std::barrier failed(kRanks);
  CHECK(on_worlds(kRanks, short_limits(), [&](World& world) {
          RankGroups ranks(world, role_of(degrees, world));
          ranks.connect(c10::kCPU, true);
          const uint32_t rank = world.rank();
          for (int round = 0; round < 3; ++round) {
            // All groups work.
            for (Group* const group :
                 {&ranks.gather(), &ranks.replicas(1), &ranks.whole(), &ranks.rows()}) {
              at::Tensor sum = at::ones({50'000});
              group->all_reduce(sum, "gradients")->wait();
              num_wrong += sum.eq(group->size()).all().item<bool>() ? 0 : 1;
            }
            num_wrong += ranks.all().gather_texts("x", "votes").size() == kRanks ? 0 : 1;
            // Rank 1 gives up; the others are in a collective that it never joins.
            try {
              if (rank == 1) {
                world.abort("out of patience");
              }
              at::Tensor sum = at::ones({50'000});
              ranks.whole().all_reduce(sum, "gradients")->wait();
              num_wrong += 1;
            } catch (const Error& error) {
              failures[rank].push_back(error.id());
            }
            failed.arrive_and_wait();
            ranks.reconnect();
          }
          num_wrong += ranks.all().gather_texts("x", "votes").size() == kRanks ? 0 : 1;
          world.leave();
        }) == Texts(kRanks));
  CHECK(num_wrong == 0);
  for (const auto& of_rank : failures) {
    CHECK(of_rank == std::vector<std::string>(3, "distributed.failed"));
  }
}

}  // namespace tenon
