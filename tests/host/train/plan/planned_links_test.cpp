// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_links.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Crossing = PlannedLinks::Crossing;

constexpr PlanMachine kMachine = {
    .ranks_per_node = 4, .bandwidth_node = 100, .bandwidth_network = 10, .latency = 0.5};

}  // namespace

TEST_CASE("shard groups within a machine send nothing to another", "[model]") {
  // Two machines of four ranks; each shard group fills one machine.
  const PlannedLinks links(2, 4, kMachine);
  CHECK(links.mean_between(1000, &Crossing::shard) == 0);
  CHECK(links.leaving(1000, &Crossing::shard) == 0);
  CHECK(links.mean_between(1000, &Crossing::replicate) == 1000);
  CHECK(links.leaving(1000, &Crossing::replicate) == 4000);
  // A ring over all ranks crosses twice, once from each machine.
  CHECK(links.mean_between(1000, &Crossing::world) == 250);
  CHECK(links.leaving(1000, &Crossing::world) == 1000);
}

TEST_CASE("a collective takes the time of its slowest link, and a latency a round", "[model]") {
  const PlannedLinks links(2, 4, kMachine);
  CHECK(links.seconds(100, 4, &Crossing::shard) == 100.0 / 100 + 3 * 0.5);
  CHECK(links.seconds(100, 2, &Crossing::replicate, 2) == 100.0 / 10 + 2 * 0.5);
  CHECK(links.seconds(100, 1, &Crossing::shard) == 0);
  CHECK(links.seconds(0, 4, &Crossing::shard) == 0);
}

TEST_CASE("an all-reduce sends each number almost twice", "[model]") {
  CHECK(all_reduce_bytes(100, at::kFloat, 4, true) == 2 * 100 * 4 * 3 / 4);
  CHECK(all_reduce_bytes(100, at::kFloat, 1, true) == 0);
  // On CPUs the owner of a part sums bf16 in fp32: a rank sends the other parts, then its own sum.
  CHECK(all_reduce_bytes(100, at::kBFloat16, 4, true) == (75 + 3 * 25) * 2);
  CHECK(all_reduce_bytes(100, at::kBFloat16, 4, false) == 2 * 100 * 2 * 3 / 4);
}

}  // namespace tenon
