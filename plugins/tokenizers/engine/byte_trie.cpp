// SPDX-License-Identifier: Apache-2.0
#include "byte_trie.hpp"

#include <algorithm>
#include <emmintrin.h>

namespace tenon {

ByteTrie::ByteTrie(std::vector<std::pair<std::string, int32_t>> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  // Breadth first, so that the edges of a node are adjacent. A node stands for the entries
  // [begin, end), which share their first `depth` bytes.
  struct Range {
    uint32_t node;
    size_t begin;
    size_t end;
    size_t depth;
  };
  nodes_.emplace_back();
  std::vector<Range> queue = {{0, 0, entries.size(), 0}};
  for (size_t next = 0; next < queue.size(); ++next) {
    const Range range = queue[next];
    size_t i = range.begin;
    while (i < range.end && entries[i].first.size() == range.depth) {
      nodes_[range.node].value = entries[i].second;
      ++i;
    }
    nodes_[range.node].first = static_cast<uint32_t>(edges_.size());
    while (i < range.end) {
      const char byte = entries[i].first[range.depth];
      size_t end = i + 1;
      while (end < range.end && entries[end].first[range.depth] == byte) {
        ++end;
      }
      const auto node = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      edges_.push_back({static_cast<unsigned char>(byte), node});
      queue.push_back({node, i, end, range.depth + 1});
      i = end;
    }
    nodes_[range.node].num_edges = static_cast<uint32_t>(edges_.size()) - nodes_[range.node].first;
  }
  nodes_[0].value = kNone;
  for (uint32_t i = 0; i < nodes_[0].num_edges; ++i) {
    roots_[edges_[i].byte] = edges_[i].node;
    starts_.push_back(edges_[i].byte);
  }
  if (starts_.size() > 3) {
    starts_.clear();
  }
}

ByteTrie::Match ByteTrie::find(std::string_view text, size_t from) const {
  if (empty()) {
    return {};
  }
  for (size_t at = from; at < text.size(); ++at) {
    if (!starts_.empty()) {
      const __m128i a = _mm_set1_epi8(static_cast<char>(starts_.front()));
      const __m128i b = _mm_set1_epi8(static_cast<char>(starts_[starts_.size() / 2]));
      const __m128i c = _mm_set1_epi8(static_cast<char>(starts_.back()));
      while (at + 16 <= text.size()) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + at));
        const __m128i equal =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, a), _mm_cmpeq_epi8(bytes, b)),
                         _mm_cmpeq_epi8(bytes, c));
        const int mask = _mm_movemask_epi8(equal);
        if (mask != 0) {
          at += static_cast<size_t>(__builtin_ctz(static_cast<unsigned>(mask)));
          break;
        }
        at += 16;
      }
      if (at >= text.size()) {
        break;
      }
    }
    Match match;
    prefixes(text.substr(at), [&](size_t size, int32_t value) { match = {at, at + size, value}; });
    if (match.value != kNone) {
      return match;
    }
  }
  return {};
}

}  // namespace tenon
