// SPDX-License-Identifier: Apache-2.0
//
// A trie of byte strings with values.
// Threads: after construction, any thread may read.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

class ByteTrie {
 public:
  static constexpr int32_t kNone = -1;
  struct Match {
    size_t begin = 0;
    size_t end = 0;
    int32_t value = kNone;
  };

  ByteTrie() : ByteTrie(std::vector<std::pair<std::string, int32_t>>()) {}
  // Takes strings that are not empty. Of equal strings the last counts.
  explicit ByteTrie(std::vector<std::pair<std::string, int32_t>> entries);

  bool empty() const { return nodes_.size() == 1; }

  // Calls found(size, value) for each entry that `text` starts with, the shortest first.
  template <class Found>
  void prefixes(std::string_view text, Found&& found) const {
    uint32_t node = text.empty() ? 0 : roots_[static_cast<unsigned char>(text[0])];
    for (size_t size = 1; node != 0; ++size) {
      if (nodes_[node].value != kNone) {
        found(size, nodes_[node].value);
      }
      node = size < text.size() ? child(node, static_cast<unsigned char>(text[size])) : 0;
    }
  }

  // The leftmost match at or after `from`, the longest one at its place; value kNone if there is
  // none.
  Match find(std::string_view text, size_t from) const;

 private:
  struct Node {
    uint32_t first = 0;  // of its edges
    uint32_t num_edges = 0;
    int32_t value = kNone;
  };
  struct Edge {
    unsigned char byte;
    uint32_t node;
  };

  uint32_t child(uint32_t node, unsigned char byte) const {
    const Node& n = nodes_[node];
    uint32_t low = n.first;
    uint32_t high = n.first + n.num_edges;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (edges_[middle].byte < byte) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < n.first + n.num_edges && edges_[low].byte == byte ? edges_[low].node : 0;
  }

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::array<uint32_t, 256> roots_{};
  std::vector<unsigned char> starts_;  // first bytes, if there are at most 3
};

}  // namespace tenon
