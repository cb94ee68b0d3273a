// SPDX-License-Identifier: Apache-2.0
//
// Plans against what all ranks do when they are walked through one by one, and against numbers
// worked out by hand.
#include "host/train/plan/rank_plan.hpp"

#include <tenon/model.h>

#include "host/train/plan/mesh_search.hpp"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/host/train/plan/plan_chain.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// What a rank sends, one message of a ring after the other.
struct Sent {
  int64_t all = 0;
  int64_t between_nodes = 0;
};

// Each rank of a ring sends a slice to its neighbour, so often.
void ring(std::vector<Sent>& ranks,
          const std::vector<size_t>& members,
          int64_t slice,
          int64_t messages,
          size_t ranks_per_node) {
  for (size_t i = 0; i < members.size() && members.size() > 1; ++i) {
    const size_t next = members[(i + 1) % members.size()];
    for (int64_t m = 0; m < messages; ++m) {
      ranks[members[i]].all += slice;
      ranks[members[i]].between_nodes +=
          members[i] / ranks_per_node != next / ranks_per_node ? slice : 0;
    }
  }
}

// All collectives of a step of stage 3, by all ranks.
std::vector<Sent> walk_ranks(const PlanSubject& subject, int64_t replicate, int64_t shard) {
  std::vector<Sent> ranks(static_cast<size_t>(replicate * shard));
  for (size_t g = 0; g < subject.groups.size(); ++g) {
    const int64_t slice = subject.groups[g].flat_numel(shard) / shard * 4;
    for (int64_t r = 0; r < replicate; ++r) {
      std::vector<size_t> members;
      for (int64_t s = 0; s < shard; ++s) {
        members.push_back(static_cast<size_t>(r * shard + s));
      }
      for (int64_t m = 0; m < subject.microbatches; ++m) {
        const bool is_last = g + 1 == subject.groups.size();
        for (int gather = 0; gather < (is_last ? 1 : 2); ++gather) {
          ring(ranks, members, slice, shard - 1, 4);
        }
        ring(ranks, members, slice, shard - 1, 4);
      }
    }
    for (int64_t s = 0; s < shard; ++s) {
      std::vector<size_t> members;
      for (int64_t r = 0; r < replicate; ++r) {
        members.push_back(static_cast<size_t>(r * shard + s));
      }
      // An all-reduce: a reduce-scatter and a gather of pieces of the slice.
      ring(ranks, members, slice / replicate, 2 * (replicate - 1), 4);
    }
  }
  return ranks;
}

}  // namespace

TEST_CASE("bytes are those that ranks send when each is walked through", "[model]") {
  PlanSubject subject = small_chain();
  subject.microbatches = 3;
  for (const auto& [replicate, shard] : {std::pair<int64_t, int64_t>{1, 1},
                                         {1, 2},
                                         {2, 1},
                                         {2, 2},
                                         {1, 16},
                                         {2, 8},
                                         {8, 2},
                                         {4, 4},
                                         {16, 1}}) {
    CAPTURE(replicate, shard);
    const RankPlan plan = plan_rank(subject, {.replicate = replicate, .shard = shard}, kMachine);
    Sent sum;
    for (const Sent& rank : walk_ranks(subject, replicate, shard)) {
      CHECK(rank.all == plan.traffic.sent());  // each rank sends the same
      sum.between_nodes += rank.between_nodes;
    }
    const auto mean =
        static_cast<double>(sum.between_nodes) / static_cast<double>(replicate * shard);
    CHECK(std::abs(static_cast<double>(plan.traffic.between_nodes()) - mean) <= 3.0);
  }
}

TEST_CASE("stages 1 and 2 send what is said of them", "[model]") {
  PlanSubject subject = small_chain();
  subject.microbatches = 5;
  int64_t whole = 0;  // on 4 ranks
  for (const GroupLayout& group : subject.groups) {
    whole += group.flat_numel(4) * 4;
  }
  const int64_t once = whole / 4 * 3;
  const RankPlan one = plan_rank(subject, {.shard = 4, .stage = 1}, kMachine);
  CHECK(one.traffic.all_gather.sent == once);
  CHECK(one.traffic.reduce_scatter.sent == once);
  const RankPlan two = plan_rank(subject, {.shard = 4, .stage = 2}, kMachine);
  CHECK(two.traffic.all_gather.sent == once);
  CHECK(two.traffic.reduce_scatter.sent == 5 * once);
  subject.gradient_dtype = at::kBFloat16;
  CHECK(plan_rank(subject, {.shard = 4, .stage = 2}, kMachine).traffic.reduce_scatter.sent ==
        5 * once / 2);
  CHECK(plan_rank(subject, {.replicate = 4, .stage = 2}, kMachine).traffic.all_reduce.sent ==
        2 * 3 * ((112 + 5008 + 64) * 2) / 4);
}

TEST_CASE("a block that stays after its forward is gathered once", "[model]") {
  PlanSubject subject = small_chain();
  const auto gathered = [&] {
    return plan_rank(subject, {.shard = 2}, kMachine).traffic.all_gather.sent;
  };
  // Slices of two: 128, 5120 and 64 elements in all. Slices of block 1 are of whole chunks of 64.
  CHECK(gathered() == (2 * 128 + 2 * 5120 + 64) * 4 / 2);
  subject.reshard_after_forward = true;
  CHECK(gathered() == 2 * (128 + 5120 + 64) * 4 / 2);
  subject.reshard_after_forward = false;
  CHECK(gathered() == (128 + 5120 + 64) * 4 / 2);
}

TEST_CASE("what ranks keep adds up to the whole", "[model]") {
  const PlanSubject subject = small_chain();
  for (const int64_t shard : {2, 3, 4, 7, 16, 1000}) {
    CAPTURE(shard);
    int64_t whole = 0;
    for (const GroupLayout& group : subject.groups) {
      whole += group.flat_numel(shard);
    }
    const PlanMemory three = plan_rank(subject, {.shard = shard}, kMachine).memory;
    CHECK(three.parameters * shard == whole * 4);
    CHECK(three.gradients * shard == whole * 4);
    CHECK(three.optimizer * shard == whole * 8);
    const PlanMemory two = plan_rank(subject, {.shard = shard, .stage = 2}, kMachine).memory;
    CHECK(two.parameters == whole * 4);
    CHECK(two.gradients * shard == whole * 4);
    const PlanMemory one = plan_rank(subject, {.shard = shard, .stage = 1}, kMachine).memory;
    CHECK(one.parameters == whole * 4);
    CHECK(one.gradients == whole * 4);
    CHECK(one.optimizer * shard == whole * 8);
  }
}

TEST_CASE("groups of other pipeline ranks take no memory, and send nothing", "[model]") {
  PlanSubject subject = small_chain();
  subject.has_averages = true;
  for (const int stage : {1, 2, 3}) {
    for (const PlanChoice& choice : {PlanChoice{.shard = 1, .stage = stage},
                                     PlanChoice{.shard = 4, .stage = stage},
                                     PlanChoice{.replicate = 2, .shard = 2, .stage = stage},
                                     PlanChoice{.replicate = 4, .shard = 1, .stage = stage}}) {
      CAPTURE(stage, choice.replicate, choice.shard);
      const RankPlan whole = plan_rank(subject, choice, kMachine);
      PlanMemory sum;
      int64_t sent = 0;
      for (uint32_t owner = 0; owner < 2; ++owner) {  // of block 1, or of the others
        PlanSubject staged = subject;
        for (size_t g = 0; g < staged.groups.size(); ++g) {
          staged.groups[g].holders = {g == 1 ? 0U : 1U};
          staged.groups[g].is_elsewhere = staged.groups[g].holders.front() != owner;
        }
        const RankPlan plan = plan_rank(staged, choice, kMachine);
        sum.parameters += plan.memory.parameters;
        sum.gradients += plan.memory.gradients;
        sum.optimizer += plan.memory.optimizer;
        sum.averages += plan.memory.averages;
        sent += plan.traffic.sent();
      }
      CHECK(sum.parameters == whole.memory.parameters);
      CHECK(sum.gradients == whole.memory.gradients);
      CHECK(sum.optimizer == whole.memory.optimizer);
      CHECK(sum.averages == whole.memory.averages);
      CHECK(sent == whole.traffic.sent());
    }
  }
}

TEST_CASE("averages are sharded as the optimizer's state, in at least fp32", "[model]") {
  PlanSubject subject = small_chain();
  CHECK(plan_rank(subject, {.shard = 2}, kMachine).memory.averages == 0);
  subject.has_averages = true;
  for (GroupLayout& group : subject.groups) {
    group.stored = group.seen = at::kBFloat16;
  }
  for (const int stage : {1, 3}) {
    const PlanMemory memory = plan_rank(subject, {.shard = 2, .stage = stage}, kMachine).memory;
    CHECK(memory.averages == (128 + 5120 + 64) / 2 * 4);
    CHECK(memory.optimizer == (128 + 5120 + 64) / 2 * 8);
  }
  subject.groups[1].is_trainable = false;
  CHECK(plan_rank(subject, {.shard = 2}, kMachine).memory.averages == (128 + 64) / 2 * 4);
  subject.has_host = true;
  const PlanMemory away = plan_rank(subject, {.shard = 2, .offloads = true}, kMachine).memory;
  CHECK(away.averages == 0);
}

TEST_CASE("the fullest moment is the one worked out by hand", "[model]") {
  // On one rank nothing is gathered. Backward of block 1: outputs of blocks 0 and 1, what blocks 0
  // and 1 keep, the gradient of what block 1 made, and its working memory.
  const RankPlan plan = plan_rank(small_chain(), {}, kMachine);
  CHECK(plan.memory.gathered == 0);
  CHECK(plan.memory.activations == (1000 + 2000) + (3000 + 5000) + 2000 + 21'000);
  CHECK(plan.memory.moment == "backward of block 'block1'");

  // With recompute block 0 keeps nothing, and block 1 makes its output anew.
  const RankPlan again = plan_rank(small_chain(), {.recomputes = true}, kMachine);
  CHECK(again.memory.activations == (1000 + 2000) + 2000 + 5000 + 2000 + 21'000);

  // On two ranks, at the end of it: its results (20000 bytes, and the gradient of what it read) are
  // there beside outputs, what block 0 keeps and the gradient of what it made; parameters of blocks
  // 0 and 1, the whole gradient of block 1, and that of block 2 on its way, with the slice of its
  // sum and the slice that is received for it.
  const RankPlan shared = plan_rank(small_chain(), {.shard = 2}, kMachine);
  CHECK(shared.memory.activations == (1000 + 2000) + 3000 + 2000 + 1000 + 20'000);
  CHECK(shared.memory.gathered == (128 + 5120) * 4 + 5120 * 4 + 64 * 4 * 2);
}

TEST_CASE("a unit is gathered and recomputed as one, worked out by hand", "[model]") {
  PlanSubject subject = small_chain();
  subject.graph.blocks[0].unit = subject.graph.blocks[1].unit = "u";
  subject.groups = lay_out_groups(subject.graph, {});
  REQUIRE(subject.groups.size() == 2);

  // Without recompute on one rank, units change nothing.
  CHECK(plan_rank(subject, {}, kMachine).memory.activations ==
        plan_rank(small_chain(), {}, kMachine).memory.activations);

  // The output of block 0 is dropped between forward and backward. In backward of block 1, it is
  // there again, with all that both blocks keep, a second output of block 1, the gradient of what
  // block 1 made, and its working memory.
  const RankPlan again = plan_rank(subject, {.recomputes = true}, kMachine);
  CHECK(again.memory.moment == "backward of block 'block1'");
  CHECK(again.memory.activations == (1000 + 2000) + (3000 + 5000) + 2000 + 2000 + 21'000);
  CHECK(again.time.recompute > 0);

  // Only block 1: the output of block 0 stays.
  subject.recomputable = {false, true, false};
  const RankPlan some = plan_rank(subject, {.recomputes = true}, kMachine);
  CHECK(some.memory.activations == (1000 + 2000) + (3000 + 5000) + 2000 + 2000 + 21'000);
  CHECK(some.time.recompute < again.time.recompute);

  // On two ranks, each unit is gathered twice, the last one once.
  const int64_t unit = subject.groups[0].flat_numel(2);
  CHECK(plan_rank(subject, {.shard = 2}, kMachine).traffic.all_gather.sent ==
        (2 * unit + 64) * 4 / 2);
}

TEST_CASE("rows of tables count until the backward of their first reader, and are trained",
          "[model]") {
  // Block 0 has no parameter, and reads rows of 600 bytes, which block 2 reads too.
  PlanSubject subject = small_chain();
  subject.graph.parameters[0].flags = TENON_PARAM_FROZEN;
  subject.groups = lay_out_groups(subject.graph, {});
  const RankPlan without = plan_rank(subject, {}, kMachine);
  ModelValue rows;
  rows.name = "rows";
  rows.lookup.emplace();
  rows.is_read = false;
  rows.users = {0, 2};
  subject.graph.values.push_back(rows);
  subject.graph.blocks[0].inputs.push_back(4);
  subject.graph.blocks[2].inputs.push_back(4);
  subject.costs[0].bytes_of_rows = {600};
  const RankPlan with = plan_rank(subject, {}, kMachine);

  // Without rows, block 0 has no backward: it keeps nothing. At the peak, backward of block 1,
  // there are outputs, what is kept, the gradient of what block 1 made, and its working memory.
  CHECK(without.memory.activations == (1000 + 2000) + 5000 + 2000 + 21'000);
  // With rows, block 0 keeps 3000 bytes, and rows and the gradient that block 2 added exist too.
  CHECK(with.memory.activations == (1000 + 2000) + (3000 + 5000) + 2000 + 21'000 + 2 * 600);
  CHECK(with.memory.moment == "backward of block 'block1'");
  CHECK(with.time.flops == without.time.flops + 2e9);
}

TEST_CASE("the time of a step is that of its slowest parts, worked out by hand", "[model]") {
  const auto is = [](double is, double wanted) {
    return std::abs(is - wanted) < 1e-9 + 1e-6 * std::abs(wanted);
  };
  const RankPlan alone = plan_rank(small_chain(), {}, kMachine);
  CHECK(is(alone.time.compute, 0.021));
  CHECK(is(alone.time.step, 0.021));
  CHECK(is(alone.time.flops, 21e9));
  const RankPlan again = plan_rank(small_chain(), {.recomputes = true}, kMachine);
  CHECK(is(again.time.recompute, 0.007));
  CHECK(is(again.time.step, 0.028));

  // Two ranks of one node at 1e9 bytes a second: gathers of 256, 10240 and 128 bytes a rank.
  const double hop = 1e-6;
  const double ends = (256e-9 + hop) + (256e-9 + hop);  // the first gather and the last reduction
  const RankPlan two = plan_rank(small_chain(), {.shard = 2}, kMachine);
  CHECK(
      is(two.time.communication, (5 * hop) + 3 * hop + (2 * 256 + 2 * 10240 + 128 + 10624) * 1e-9));
  CHECK(is(two.time.exposed, ends));
  CHECK(is(two.time.step, 0.021 + ends));
}

TEST_CASE("a tiled loss takes its share of the last block", "[model]") {
  PlanSubject subject = small_chain();
  const RankPlan whole = plan_rank(subject, {}, kMachine);
  subject.tile_share = 0.25;
  const RankPlan tiled = plan_rank(subject, {}, kMachine);
  CHECK(tiled.memory.activations <= whole.memory.activations);
}

TEST_CASE("a block that every rank keeps whole is reduced over all of them", "[model]") {
  PlanSubject subject = small_chain();
  subject.groups =
      lay_out_groups(subject.graph, {.is_unsharded = [](uint32_t p) { return p == 0; }});
  const RankPlan plan = plan_rank(subject, {.replicate = 2, .shard = 2}, kMachine);
  const int64_t slices = (5120 + 64) * 4 / 2;
  CHECK(plan.traffic.all_reduce.sent == 2 * 3 * (112 * 4) / 4 + slices);
}

TEST_CASE("the plan that is suggested fits and is the fastest that does", "[model]") {
  PlanSubject subject = small_chain();
  const PlanChoice given{.replicate = 8, .shard = 1};
  const RankPlan start = plan_rank(subject, given, kMachine);
  CHECK_FALSE(cheapest_that_fits(subject, given, kMachine, 1000).has_value());
  const RankPlan smallest = smallest_plan(subject, given, kMachine);
  CHECK(smallest.memory.sum() < start.memory.sum());
  const int64_t memory = (smallest.memory.sum() + start.memory.sum()) / 2;
  const auto found = cheapest_that_fits(subject, given, kMachine, memory);
  REQUIRE(found.has_value());
  CHECK(found->memory.sum() <= memory);
  CHECK(found->choice.replicate * found->choice.shard == 8);
  for (const int64_t shard : {1, 2, 4, 8}) {
    for (const int stage : {1, 2, 3}) {
      for (const bool recomputes : {false, true}) {
        const RankPlan other = plan_rank(
            subject,
            {.replicate = 8 / shard, .shard = shard, .stage = stage, .recomputes = recomputes},
            kMachine);
        CHECK((other.memory.sum() > memory || other.time.step >= found->time.step));
      }
    }
  }
  // Enough for everything: what was given is as good as any.
  CHECK(cheapest_that_fits(subject, given, kMachine, int64_t{1} << 40)->time.step <=
        start.time.step);
}

TEST_CASE("offload moves what is kept to the host, on devices that have one", "[model]") {
  PlanSubject subject = small_chain();
  const PlanChoice choice{.shard = 2, .offloads = true};
  CHECK(plan_rank(subject, choice, kMachine).memory.host == 0);
  subject.has_host = true;
  const RankPlan plan = plan_rank(subject, choice, kMachine);
  CHECK(plan.memory.parameters == 0);
  CHECK(plan.memory.gradients == 0);
  CHECK(plan.memory.optimizer == 0);
  CHECK(plan.memory.host == (128 + 5120 + 64) * 16 / 2);
}

}  // namespace tenon
