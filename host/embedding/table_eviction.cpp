// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/table_parts.hpp"

namespace tenon {

// Calls due(notes) for each row, and waiting_due(waiting) for each waiting id, whose hash lies in
// the range. Removes those for which the call returns true.
template <class Due, class WaitingDue>
void TableParts::sweep(uint64_t first, uint64_t last, Due&& due, WaitingDue&& waiting_due) {
  // Rows of neighbors in the index lie anywhere in memory, so they are prefetched in batches.
  const auto pieces = static_cast<uint64_t>(static_cast<double>(index.size()) *
                                            (static_cast<double>(last - first) * 0x1p-64) / 64.0);
  const uint64_t width = (last - first) / (pieces + 1);
  for (uint64_t begin = first;;) {
    const uint64_t end = last - begin <= width ? last : begin + width;
    index.visit(begin, end, [&](uint64_t, int64_t, int32_t number) {
      if (number >= 0) {
        rows.prefetch_notes(number);
      }
      return false;
    });
    index.visit(begin, end, [&](uint64_t, int64_t, int32_t number) {
      if (number < 0) {
        const bool goes = waiting_due(waiting_of(number));
        num_waiting -= goes ? 1 : 0;
        return goes;
      }
      const bool goes = due(rows.notes(number));
      if (goes) {
        rows.free(number);
        ++counts.evicted;
      }
      return goes;
    });
    if (end == last) {
      break;
    }
    begin = end + 1;
  }
}

// Sweeps one part of the table. A full round takes at most an eighth of unseen_steps.
void TableParts::evict_unseen(int64_t ended) {
  const int64_t unseen = *spec.evict.unseen_steps;
  const auto parts = static_cast<uint64_t>(std::clamp<int64_t>(unseen / 8, 1, 1024));
  const uint64_t width = UINT64_MAX / parts;
  const uint64_t first = sweep_at;
  const uint64_t last = UINT64_MAX - first <= width ? UINT64_MAX : first + width;
  const int64_t min_count = spec.evict.min_count.value_or(INT64_MAX);
  const int64_t now = ended / age_unit() % kAges;
  sweep(
      first,
      last,
      [&](const RowNotes& notes) {
        return ended - int64_t{notes.last_step} >= unseen && int64_t{notes.count} < min_count;
      },
      [&](const Waiting& waiting) {
        return ((now - waiting.age + kAges) % kAges) * age_unit() >= unseen;
      });
  sweep_at = last + 1;  // wraps to 0 after the last part
}

template <class Use>
void TableParts::collect(uint64_t first, uint64_t last, Use&& use) {
  std::vector<std::pair<std::pair<uint64_t, int64_t>, int32_t>> found;
  index.visit(first, last, [&](uint64_t hash, int64_t id, int32_t number) {
    if (number >= 0) {
      found.push_back({{hash, id}, number});
    }
    return false;
  });
  for (size_t i = 0; i < found.size(); ++i) {
    if (i + kAhead < found.size()) {
      rows.prefetch_notes(found[i + kAhead].second);
    }
    use(found[i].first.first, found[i].first.second, rows.notes(found[i].second));
  }
}

// Evicts the worst rows of a part of the table with about eight times as many rows as `excess`.
void TableParts::evict_excess(int64_t ended, int64_t excess) {
  struct Candidate {
    uint64_t key;
    uint64_t hash;
    int64_t id;
  };
  const bool by_count = spec.evict.policy == EvictPolicy::kLeastFrequent;
  const int64_t wanted = 8 * excess + 256;
  std::vector<Candidate> candidates;  // rows of this step only if there are too few others
  std::vector<Candidate> of_this_step;
  const double part = static_cast<double>(wanted) / static_cast<double>(rows.num_rows());
  const uint64_t width = part >= 1 ? UINT64_MAX : static_cast<uint64_t>(part * 0x1p64);
  uint64_t covered = 0;
  bool is_round = false;
  while (!is_round && (covered < width || static_cast<int64_t>(candidates.size()) < excess)) {
    // The range ends at the last hash, or where the round started.
    const uint64_t first = excess_at;
    const uint64_t most = std::min(UINT64_MAX - first, UINT64_MAX - covered);
    const uint64_t last = first + std::min(covered < width ? width - covered : width, most);
    collect(first, last, [&](uint64_t hash, int64_t id, const RowNotes& notes) {
      const uint64_t key = by_count ? uint64_t{notes.count} << 32 | notes.last_step
                                    : uint64_t{notes.last_step} << 32 | notes.count;
      (int64_t{notes.last_step} >= ended ? of_this_step : candidates).push_back({key, hash, id});
    });
    is_round = covered + (last - first) + 1 <= covered;  // overflow: all 2^64 hashes are covered
    covered += last - first + 1;
    excess_at = last + 1;
  }
  const auto is_worse = [](const Candidate& a, const Candidate& b) {
    return a.key != b.key ? a.key < b.key : a.hash < b.hash;
  };
  if (static_cast<int64_t>(candidates.size()) < excess) {
    std::ranges::sort(of_this_step, is_worse);
    of_this_step.resize(static_cast<size_t>(excess) - candidates.size());
    candidates.insert(candidates.end(), of_this_step.begin(), of_this_step.end());
  } else {
    std::ranges::nth_element(candidates, candidates.begin() + excess, is_worse);
    candidates.resize(static_cast<size_t>(excess));
  }
  for (const Candidate& candidate : candidates) {
    index.visit(candidate.hash, candidate.hash, [&](uint64_t, int64_t id, int32_t number) {
      if (id != candidate.id) {
        return false;
      }
      rows.free(number);
      ++counts.evicted;
      return true;
    });
  }
}

}  // namespace tenon
