// SPDX-License-Identifier: Apache-2.0
//
// Which processors each rank of this machine runs on, and how many threads it computes with.
// Memory needs no word: Linux gives a page from the node of the processor that touches it first,
// and a rank is bound before its first instruction. Invariant: all ranks get the same number of
// threads, since the recipe that a run leaves is one.
// Threads: any.
#pragma once

#include "host/distributed/ranks/topology.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon {

enum class Binding {
  kNone,   // all ranks run wherever this process may
  kCores,  // each rank on its own cores
  kNuma,   // each rank on the nodes that it shares with its neighbors, or has for itself
};

struct RankProcessors {
  Processors processors;  // none if nothing is bound
  int threads = 1;
};

// Deals out cores, those of one node next to each other, to `num_ranks` ranks: whole nodes to each
// rank if there are as many nodes as ranks; else ranks to nodes, by their numbers of cores, and
// with kCores the cores of a node to its ranks. Where a node has fewer cores than ranks, they share
// them.
std::vector<RankProcessors> deal_processors(const std::vector<Core>& cores,
                                            uint32_t num_ranks,
                                            Binding binding);

// The compute threads of a rank that another launcher has started: the processors that it is bound
// to, or its share of the machine, whichever is less.
int share_of_threads(int num_allowed, int num_online, uint32_t num_local_ranks);

}  // namespace tenon
