// SPDX-License-Identifier: Apache-2.0
//
// The processors on which each rank of this machine runs, and its number of compute threads. Memory
// needs no binding: Linux allocates a page on the node of the processor that touches it first, and
// a rank is bound before its first instruction.
// Invariant: all ranks get the same number of threads, because a run has a single frozen recipe.
// Threads: any.
#pragma once

#include "host/distributed/ranks/topology.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tenon {

enum class Binding {
  kNone,   // all ranks may run on all processors of this process
  kCores,  // each rank on its own cores
  kNuma,   // each rank on its own nodes, or on a node shared with its neighbors
};

struct RankProcessors {
  Processors processors;  // empty if the rank is not bound
  int threads = 1;
};

// Assigns cores, sorted by node, to `num_ranks` ranks. If there are at least as many nodes as
// ranks, each rank gets whole nodes. Otherwise ranks are assigned to nodes by numbers of cores, and
// kCores splits the cores of a node among its ranks. If a node has fewer cores than ranks, its
// ranks share cores. `quota` is the number of processors that all of them may use at a time.
std::vector<RankProcessors> deal_processors(const std::vector<Core>& cores,
                                            uint32_t num_ranks,
                                            Binding binding,
                                            std::optional<int> quota);

// Returns the compute threads of a rank that another launcher has started: the number of processors
// to which it is bound, or its share of the machine, whichever is less. `quota` limits the ranks of
// this machine together.
int share_of_threads(int num_allowed,
                     int num_online,
                     uint32_t num_local_ranks,
                     std::optional<int> quota = std::nullopt);

// Returns the compute threads that a value of OMP_NUM_THREADS asks for: N of "N" and of "N,M,...".
// Returns 0 if it has another form or N is out of range.
int threads_of_variable(std::string_view value);

}  // namespace tenon
