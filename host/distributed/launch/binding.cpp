// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/launch/binding.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <span>

namespace tenon {
namespace {

constexpr int kMostComputeThreads = 4096;  // of threads.compute in a recipe

using Cores = std::span<const Core>;

std::vector<Cores> by_node(const std::vector<Core>& cores) {
  std::vector<Cores> nodes;
  for (size_t begin = 0; begin < cores.size();) {
    size_t end = begin;
    while (end < cores.size() && cores[end].node == cores[begin].node) {
      ++end;
    }
    nodes.push_back(Cores(cores).subspan(begin, end - begin));
    begin = end;
  }
  return nodes;
}

// Returns part `index` of `count` nearly equal parts, the larger ones first. If there are more
// parts than items, several parts are the same item.
template <class Item>
std::span<const Item> part_of(std::span<const Item> items, size_t index, size_t count) {
  if (count > items.size()) {
    return items.subspan(index * items.size() / count, 1);
  }
  const size_t least = items.size() / count;
  const size_t longer = items.size() % count;
  const size_t begin = index * least + std::min(index, longer);
  return items.subspan(begin, least + (index < longer ? 1 : 0));
}

// Returns the number of ranks of each node: each rank in turn goes to the node with the most cores
// per rank.
std::vector<size_t> ranks_by_node(const std::vector<Cores>& nodes, uint32_t num_ranks) {
  std::vector<size_t> counts(nodes.size(), 0);
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    size_t best = 0;
    for (size_t i = 1; i < nodes.size(); ++i) {
      // Compares cores per rank, without division.
      if (nodes[i].size() * (counts[best] + 1) > nodes[best].size() * (counts[i] + 1)) {
        best = i;
      }
    }
    ++counts[best];
  }
  return counts;
}

int num_processors(Cores cores) {
  size_t count = 0;
  for (const Core& core : cores) {
    count += core.processors.size();
  }
  return static_cast<int>(count);
}

Processors processors_of(Cores cores) {
  Processors processors;
  for (const Core& core : cores) {
    processors.insert(processors.end(), core.processors.begin(), core.processors.end());
  }
  std::ranges::sort(processors);
  return processors;
}

}  // namespace

std::vector<RankProcessors> deal_processors(const std::vector<Core>& cores,
                                            uint32_t num_ranks,
                                            Binding binding,
                                            std::optional<int> quota) {
  std::vector<RankProcessors> dealt(num_ranks);
  // Threads of one rank if all ranks share all cores.
  const int num_usable = std::min(num_processors(cores), quota.value_or(num_processors(cores)));
  int threads = std::max(1, num_usable / static_cast<int>(num_ranks));
  const auto give = [&](uint32_t rank, Cores own, size_t sharers) {
    dealt[rank].processors = processors_of(own);
    threads = std::min(threads, std::max(1, num_processors(own) / static_cast<int>(sharers)));
  };
  const std::vector<Cores> nodes = by_node(cores);
  if (binding != Binding::kNone && !nodes.empty() && num_ranks <= nodes.size()) {
    for (uint32_t rank = 0; rank < num_ranks; ++rank) {
      const auto own = part_of(std::span<const Cores>(nodes), rank, num_ranks);
      give(rank, Cores(own.front().data(), own.back().data() + own.back().size()), 1);
    }
  } else if (binding != Binding::kNone && !nodes.empty()) {
    const std::vector<size_t> counts = ranks_by_node(nodes, num_ranks);
    uint32_t rank = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (size_t j = 0; j < counts[i]; ++j, ++rank) {
        if (binding == Binding::kNuma) {
          give(rank, nodes[i], counts[i]);
        } else {
          give(rank, part_of(nodes[i], j, counts[i]), 1);
        }
      }
    }
  }
  for (RankProcessors& rank : dealt) {
    rank.threads = threads;
  }
  return dealt;
}

int share_of_threads(int num_allowed,
                     int num_online,
                     uint32_t num_local_ranks,
                     std::optional<int> quota) {
  const int num_usable = std::min(num_online, quota.value_or(num_online));
  const int share = num_usable / static_cast<int>(std::max(1U, num_local_ranks));
  return std::max(1, num_allowed > 0 ? std::min(num_allowed, share) : share);
}

int threads_of_variable(std::string_view value) {
  int number = 0;
  const auto [end, error] = std::from_chars(value.begin(), value.end(), number);
  const bool is_whole = end == value.end() || *end == ',';
  return error == std::errc() && is_whole && number <= kMostComputeThreads ? std::max(0, number)
                                                                           : 0;
}

}  // namespace tenon
