// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_memory.hpp"

#include "host/train/plan/planned_tensors.hpp"
#include "host/train/plan/rank_plan.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "tests/host/train/plan/plan_chain.hpp"
#include "tests/host/train/plan/random_subject.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// What a pass holds after its instructions, and at its fullest moment.
struct WatchedPass {
  PlannedPeak peak;
  std::vector<int64_t> after;  // each instruction that a section lists, as often as it runs
  std::map<Op, int64_t> last;  // after the last instruction of a kind
};

WatchedPass watch_pass(const PlanSubject& subject, const PlanChoice& choice) {
  PlannedPrograms programs(subject);
  const std::vector<PlannedGroup> groups = planned_groups(subject, choice, programs.facts());
  WatchedPass watched;
  watched.peak = planned_peak(programs.pass(choice, groups),
                              [&](const Instruction& instruction, int64_t bytes) {
                                watched.after.push_back(bytes);
                                watched.last[instruction.op] = bytes;
                              });
  return watched;
}

int64_t sum_of(const PlannedPeak& peak) {
  return peak.activations + peak.gathered + peak.rounding;
}

int64_t twice_the_bytes(int64_t bytes) {
  return 2 * bytes;
}

}  // namespace

TEST_CASE("a tensor counts once while anything holds it", "[model]") {
  using Kind = PlannedTensors::Kind;
  PlannedTensors memory(nullptr);
  PlannedTensor value = memory.make(Kind::kActivations, 100);
  PlannedTensor on_tape = memory.hold(value);
  PlannedTensor other = memory.make(Kind::kGathered, 7);
  CHECK(memory.bytes(Kind::kActivations) == 100);
  CHECK(memory.bytes(Kind::kGathered) == 7);
  memory.release(value);
  CHECK(value == 0);
  CHECK(memory.sum() == 107);
  memory.release(on_tape);
  memory.release(on_tape);  // none
  CHECK(memory.sum() == 7);
  PlannedTensor again = memory.make(Kind::kActivations, 9);
  memory.release(other);
  CHECK(memory.sum() == 9);
  memory.release(again);
  CHECK(memory.make(Kind::kActivations, 0) == 0);
  CHECK(memory.sum() == 0);

  PlannedTensors rounded(&twice_the_bytes);
  PlannedTensor one = rounded.make(Kind::kActivations, 100);
  PlannedTensor several = rounded.make_several(Kind::kActivations, 50);
  CHECK(rounded.rounding() == 100);
  CHECK(rounded.sum() == 250);
  rounded.release(one);
  rounded.release(several);
  CHECK(rounded.sum() == 0);
}

TEST_CASE("bytes after each instruction, worked out by hand", "[model]") {
  // Forward: outputs and what blocks save. The loss adds the gradient of the last output, and the
  // backward of a block frees what it saved, its output and its gradient.
  const WatchedPass watched = watch_pass(small_chain(), {});
  CHECK(watched.after == std::vector<int64_t>{// forward, keep, of each block
                                              1000 + 3000,
                                              4000,
                                              4000 + 2000 + 5000,
                                              11'000,
                                              11'000 + 4000 + 100,
                                              15'100,
                                              15'100,               // loss
                                              15'100 + 4000,        // loss backward
                                              19'100 - 100 + 2000,  // backward of block 2
                                              21'000 - 4000,        // add gradients
                                              17'000,               // drop its tape
                                              17'000 - 4000,        // and its output
                                              13'000 - 5000 + 1000,
                                              9000 - 2000,
                                              7000,
                                              7000 - 2000,
                                              5000 - 3000,
                                              2000 - 1000,
                                              1000,
                                              0});
}

TEST_CASE("a pass ends without memory, and none of its moments is fuller than the peak",
          "[model]") {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    RandomPlan plan = random_plan(seed);
    const WatchedPass watched = watch_pass(plan.subject, plan.choice);
    REQUIRE_FALSE(watched.after.empty());
    CHECK(*std::ranges::max_element(watched.after) <= sum_of(watched.peak));
    const bool reduces =
        plan.choice.shard * plan.choice.replicate > 1 || plan.subject.reshard_after_forward == true;
    if (!reduces) {
      CHECK(watched.after.back() == 0);
    }
    // An allocator that uses twice the bytes of each tensor whose size is known.
    plan.subject.block_bytes = &twice_the_bytes;
    const PlannedPeak rounded = watch_pass(plan.subject, plan.choice).peak;
    CHECK(sum_of(rounded) >= sum_of(watched.peak));
    CHECK(sum_of(rounded) <= 2 * sum_of(watched.peak));
  }
}

TEST_CASE("a tape holds what was dropped from the values", "[model]") {
  // Block 0 is frozen, so nobody needs its output after block 1, except the tape of block 1.
  PlanSubject subject = small_chain();
  subject.graph.parameters[0].flags = TENON_PARAM_FROZEN;
  subject.groups = lay_out_groups(subject.graph, {});
  CHECK(watch_pass(subject, {}).peak.activations == (1000 + 2000) + 5000 + 2000 + 21'000);
  // Block 0 alone is not recomputed, and block 1 keeps its input for the recompute.
  subject.recomputable = {false, true, false};
  CHECK(watch_pass(subject, {.recomputes = true}).peak.activations ==
        (1000 + 2000) + 2000 + 5000 + 2000 + 21'000);
}

TEST_CASE("a gradient is added in new memory", "[model]") {
  // Block 2 reads the outputs of blocks 0 and 1; the gradient of the first waits for block 1's.
  PlanSubject subject = small_chain();
  subject.graph.blocks[2].inputs = {1, 2};
  subject.graph.values[1].users = {1, 2};
  subject.costs[1] = cost_of(2e9, 2000, 0, 0);  // the backward of block 1 needs nothing
  subject.costs[2] = cost_of(4e9, 100, 0, 0);
  subject.costs[0].saved_bytes = 100'000;
  // The backward of block 1 has returned a gradient of 1000 bytes to the one of block 2, and its
  // gradients of parameters are freed. Beside the sum there are two outputs, the gradient of the
  // second, and what block 0 saves.
  const WatchedPass watched = watch_pass(subject, {});
  CHECK(watched.peak.moment == "backward of block 'block1'");
  // Before the addition: the results of block 1 are its gradients of 20,000 bytes.
  CHECK(watched.peak.activations == 3000 + 100'000 + 2000 + 2 * 1000 + 20'000);
  subject.graph.parameters[1].flags = TENON_PARAM_FROZEN;
  subject.groups = lay_out_groups(subject.graph, {});
  CHECK(watch_pass(subject, {}).peak.activations == 3000 + 100'000 + 2000 + 3 * 1000);
}

TEST_CASE("a reduction is pending until the next one, also in the next microbatch", "[model]") {
  // Stage 2: the last reduction of a microbatch, of block 0, is pending until block 2 of the next
  // one has its gradients. It holds the gradients, a slice of their sum, and a slice that is
  // received.
  PlanSubject subject = small_chain();
  subject.costs[2].working_bytes = 1'000'000;
  const PlanChoice choice{.shard = 2, .stage = 2};
  CHECK(watch_pass(subject, choice).peak.gathered == 0);
  subject.microbatches = 2;
  CHECK(watch_pass(subject, choice).peak.gathered == 128 * 4 * 2);
}

TEST_CASE("a gradient that its update frees lives from the backward to the update", "[model]") {
  PlanSubject subject = small_chain();
  subject.frees_gradients = true;
  const WatchedPass watched = watch_pass(subject, {});
  // In the backward of block 1: its results beside the gradient of its group.
  CHECK(watched.peak.gathered == 5008 * 4);
  CHECK(watched.peak.activations == (1000 + 2000) + 3000 + 2000 + 1000 + 20'000);
  CHECK(watched.after.back() == 0);
}

TEST_CASE("what was moved away comes back for its unit, with the one before", "[model]") {
  PlanSubject subject = small_chain();
  const PlanChoice choice{.recomputes = true, .moves_activations = true};
  const WatchedPass watched = watch_pass(subject, choice);
  // Only the input of block 1, the output of block 0, can move: block 2 ends the last unit.
  CHECK(watched.last.at(Op::kMoveAway) == 2000);
  // When it is back, the gradient and the output of block 1 exist.
  CHECK(watched.last.at(Op::kBringBack) == 1000 + 2000 + 2000);
  CHECK(watched.after.back() == 0);
}

}  // namespace tenon
