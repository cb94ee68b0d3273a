// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/attention_cut.hpp"

#include <algorithm>
#include <cstddef>

namespace tenon {
namespace {

// Keys of a sample, and all queries that see them.
struct Range {
  int64_t b;
  int64_t first_key;
  int64_t end_key;
  int64_t first_query;
  int64_t end_query;
  int64_t key_part = 0;
};

// Pairs of a query and a key that a sample has, or, with first keys, twice those that see each
// other: half of all pairs are masked without them, too.
int64_t pairs_of(const AttentionInput& in, int64_t b) {
  const AttentionSizes& s = in.sizes;
  if (in.starts == nullptr || !in.is_causal) {
    return s.T * s.S;
  }
  const int32_t* const starts = in.starts + b * in.starts_batch;
  int64_t pairs = 0;
  for (int64_t t = 0; t < s.T; ++t) {
    pairs += 2 * (in.first + t + 1 - starts[t]);
  }
  return pairs;
}

// Whole segments of a sample in at most `wanted` ranges of about equal work. No query of one range
// sees a key of another.
void add_segments(const AttentionInput& in, int64_t b, int64_t wanted, std::vector<Range>& out) {
  const AttentionSizes& s = in.sizes;
  int64_t first_key = 0;
  int64_t first_query = 0;
  if (in.starts != nullptr && in.is_causal) {
    const int32_t* const starts = in.starts + b * in.starts_batch;
    const int64_t all = pairs_of(in, b);
    int64_t before = 0;
    int64_t num_ranges = 1;
    for (int64_t t = 0; t < s.T; ++t) {
      const int64_t own_key = in.first + t;
      if (starts[t] == own_key && t > 0 && before * wanted >= all * num_ranges) {
        out.push_back({b, first_key, own_key, first_query, t});
        first_key = own_key;
        first_query = t;
        ++num_ranges;
      }
      before += 2 * (own_key + 1 - starts[t]);
    }
  }
  out.push_back({b, first_key, s.S, first_query, s.T});
}

}  // namespace

BackwardTasks backward_tasks(const AttentionInput& in) {
  constexpr int64_t kTasks = 16;           // at least, if there is enough work
  constexpr int64_t kSmallWork = 1 << 22;  // products of a task that is not worth a cut
  constexpr int64_t kKeysPart = 256;       // at least
  const AttentionSizes& s = in.sizes;
  int64_t pairs = 0;
  for (int64_t b = 0; b < s.B; ++b) {
    pairs += pairs_of(in, b);
  }
  const int64_t wanted = std::min(kTasks, pairs * s.H * s.E / kSmallWork);
  const auto parts = [wanted](int64_t have, int64_t most) {
    return std::clamp<int64_t>((wanted + have - 1) / have, 1, std::max<int64_t>(most, 1));
  };

  std::vector<Range> ranges;
  for (int64_t b = 0; b < s.B; ++b) {
    add_segments(in, b, parts(s.B * s.K, s.T), ranges);
  }
  const auto num_ranges = static_cast<int64_t>(ranges.size());
  BackwardTasks cut;
  cut.head_parts = parts(num_ranges * s.K, s.H / s.K);
  if (num_ranges == s.B) {
    const int64_t chunk = attention_chunk(s);
    const int64_t chunks = (s.S + chunk - 1) / chunk;
    cut.key_parts = std::min(parts(s.B * s.K * cut.head_parts, s.S / kKeysPart), chunks);
    ranges.clear();
    for (int64_t i = 0; i < s.B * cut.key_parts; ++i) {
      const int64_t part = i % cut.key_parts;
      ranges.push_back({.b = i / cut.key_parts,
                        .first_key = part * chunks / cut.key_parts * chunk,
                        .end_key = std::min(s.S, (part + 1) * chunks / cut.key_parts * chunk),
                        .first_query = 0,
                        .end_query = s.T,
                        .key_part = part});
    }
  }

  const int64_t shared = s.H / s.K;
  for (const Range& range : ranges) {
    for (int64_t i = 0; i < s.K * cut.head_parts; ++i) {
      const int64_t kv_head = i / cut.head_parts;
      const int64_t head_part = i % cut.head_parts;
      cut.tasks.push_back(
          {.part = {.b = range.b,
                    .kv_head = kv_head,
                    .first_head = kv_head * shared + head_part * shared / cut.head_parts,
                    .end_head = kv_head * shared + (head_part + 1) * shared / cut.head_parts,
                    .first_key = range.first_key,
                    .end_key = range.end_key,
                    .first_query = range.first_query,
                    .end_query = range.end_query},
           .key_part = range.key_part,
           .head_part = head_part});
    }
  }
  return cut;
}

}  // namespace tenon
