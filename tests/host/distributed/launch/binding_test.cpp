// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/launch/binding.hpp"

#include "tests/host/distributed/ranks/recorded_machine.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// What each rank gets, "0-3" for one; and the threads of each.
struct Dealt {
  std::vector<std::string> masks;
  int threads = 0;

  bool operator==(const Dealt&) const = default;
};

Dealt deal(const std::vector<Core>& cores,
           uint32_t num_ranks,
           Binding binding,
           std::optional<int> quota = std::nullopt) {
  Dealt dealt;
  for (const RankProcessors& rank : deal_processors(cores, num_ranks, binding, quota)) {
    dealt.masks.push_back(processors_text(rank.processors));
    CHECK((dealt.threads == 0 || dealt.threads == rank.threads));
    dealt.threads = rank.threads;
  }
  return dealt;
}

using Masks = std::vector<std::string>;

}  // namespace

TEST_CASE("two cores of one node are dealt out", "[distributed]") {
  const ScratchFolder folder;
  const std::vector<Core> cores = read_topology({0, 1}, two_cores(folder));
  CHECK(deal(cores, 1, Binding::kCores) == Dealt{{"0-1"}, 2});
  CHECK(deal(cores, 2, Binding::kCores) == Dealt{{"0", "1"}, 1});
  CHECK(deal(cores, 4, Binding::kCores) == Dealt{{"0", "0", "1", "1"}, 1});
  CHECK(deal(cores, 3, Binding::kCores) == Dealt{{"0", "0", "1"}, 1});
  CHECK(deal(cores, 2, Binding::kNuma) == Dealt{{"0-1", "0-1"}, 1});
  CHECK(deal(cores, 2, Binding::kNone) == Dealt{{"", ""}, 1});
  CHECK(deal(cores, 1, Binding::kNone) == Dealt{{""}, 2});
}

TEST_CASE("whole nodes go first, and hyperthreads stay together", "[distributed]") {
  const ScratchFolder folder;
  const std::vector<Core> cores = read_topology(parse_processors("0-15"), two_nodes(folder));
  const Masks nodes = {"0-3,8-11", "4-7,12-15"};
  CHECK(deal(cores, 1, Binding::kNuma) == Dealt{{"0-15"}, 16});
  CHECK(deal(cores, 2, Binding::kNuma) == Dealt{nodes, 8});
  CHECK(deal(cores, 2, Binding::kCores) == Dealt{nodes, 8});
  CHECK(deal(cores, 4, Binding::kNuma) == Dealt{{nodes[0], nodes[0], nodes[1], nodes[1]}, 4});
  CHECK(deal(cores, 4, Binding::kCores) ==
        Dealt{{"0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"}, 4});
  CHECK(deal(cores, 8, Binding::kCores) ==
        Dealt{{"0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"}, 2});
  CHECK(deal(cores, 4, Binding::kNone) == Dealt{{"", "", "", ""}, 4});
}

TEST_CASE("ranks that do not divide the cores never share one between nodes", "[distributed]") {
  const ScratchFolder folder;
  const std::vector<Core> cores = read_topology(parse_processors("0-15"), two_nodes(folder));
  // The rank that has the fewest fixes the threads of all.
  CHECK(deal(cores, 3, Binding::kCores) == Dealt{{"0-1,8-9", "2-3,10-11", "4-7,12-15"}, 4});
  CHECK(deal(cores, 3, Binding::kNuma) == Dealt{{"0-3,8-11", "0-3,8-11", "4-7,12-15"}, 4});
  CHECK(deal(cores, 5, Binding::kCores) ==
        Dealt{{"0-1,8-9", "2,10", "3,11", "4-5,12-13", "6-7,14-15"}, 2});
}

TEST_CASE("a node with a core less gets fewer ranks", "[distributed]") {
  const ScratchFolder folder;
  const std::vector<Core> cores = read_topology({0, 1, 2, 4, 5, 6, 7}, offline_core(folder));
  CHECK(deal(cores, 2, Binding::kCores) == Dealt{{"0-2", "4-7"}, 3});
  CHECK(deal(cores, 7, Binding::kCores) == Dealt{{"0", "1", "2", "4", "5", "6", "7"}, 1});
  CHECK(deal(cores, 3, Binding::kCores) == Dealt{{"0-2", "4-5", "6-7"}, 2});
}

TEST_CASE("ranks get what the launcher itself may run on", "[distributed]") {
  const ScratchFolder folder;
  const std::vector<Core> cores = read_topology({2, 3, 10, 11, 12}, two_nodes(folder));
  CHECK(deal(cores, 2, Binding::kCores) == Dealt{{"2-3,10-11", "12"}, 1});
  CHECK(deal(cores, 3, Binding::kCores) == Dealt{{"2,10", "3,11", "12"}, 1});
}

TEST_CASE("ranks share the quota of a control group", "[distributed]") {
  const ScratchFolder folder;
  const std::vector<Core> cores = read_topology({0, 1, 2, 3, 4, 5, 6, 7}, two_nodes(folder));
  CHECK(deal(cores, 2, Binding::kNone, 3).threads == 1);
  CHECK(deal(cores, 2, Binding::kNuma, 6).threads == 3);
  CHECK(deal(cores, 2, Binding::kNuma, 100).threads == 4);
  CHECK(deal(cores, 1, Binding::kCores, 1).threads == 1);
  CHECK(share_of_threads(64, 64, 1, 2) == 2);  // docker run --cpus 2
  CHECK(share_of_threads(64, 64, 4, 2) == 1);
  CHECK(share_of_threads(2, 64, 1, 8) == 2);
}

TEST_CASE("a rank of another launcher computes with what it is bound to", "[distributed]") {
  CHECK(share_of_threads(1, 8, 2) == 1);    // mpirun binds two ranks to a core each
  CHECK(share_of_threads(8, 16, 4) == 4);   // and four to a socket
  CHECK(share_of_threads(4, 64, 2) == 4);   // srun --cpus-per-task=4
  CHECK(share_of_threads(16, 16, 2) == 8);  // torchrun binds nothing
  CHECK(share_of_threads(2, 2, 4) == 1);
  CHECK(share_of_threads(0, 4, 1) == 4);  // unknown
}

TEST_CASE("OMP_NUM_THREADS has a number, or one per level of nested loops", "[distributed]") {
  CHECK(threads_of_variable("3") == 3);
  CHECK(threads_of_variable("8,2") == 8);
  for (const char* other : {"", "0", "-1", "+3", "3x", "x", " 3", "4097", "99999999999"}) {
    INFO(other);
    CHECK(threads_of_variable(other) == 0);
  }
}

}  // namespace tenon
