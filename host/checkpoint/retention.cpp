// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/retention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>

namespace tenon {
namespace {

void keep_best(std::span<const KeptCheckpoint> kept,
               const RetentionRule& rule,
               std::vector<bool>& stays) {
  std::vector<size_t> order;
  for (size_t i = kept.size();
       i-- > 0;) {  // newest first, so that the stable sort prefers newer checkpoints
    if (kept[i].metric && !std::isnan(*kept[i].metric)) {
      order.push_back(i);
    }
  }
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return rule.best_mode == BestMode::kMin ? *kept[a].metric < *kept[b].metric
                                            : *kept[a].metric > *kept[b].metric;
  });
  const size_t count =
      std::min(order.size(), static_cast<size_t>(std::max<int64_t>(rule.keep_best, 0)));
  for (size_t i = 0; i < count; ++i) {
    stays[order[i]] = true;
  }
}

// As checkpoints_to_remove, in this order alone.
std::vector<std::string> selected(std::span<const KeptCheckpoint> kept, const RetentionRule& rule) {
  if (rule.keep_last <= 0 || kept.empty()) {
    return {};
  }
  std::vector<bool> stays(kept.size(), false);
  keep_best(kept, rule, stays);
  const size_t last = std::min(kept.size(), static_cast<size_t>(rule.keep_last));
  std::vector<std::string> names;
  for (size_t i = 0; i < kept.size(); ++i) {
    const bool is_kth = rule.keep_every_steps > 0 && kept[i].step % rule.keep_every_steps == 0;
    if (!stays[i] && !is_kth && !kept[i].is_pinned && i + last < kept.size()) {
      names.push_back(kept[i].name);
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> checkpoints_to_remove(std::span<const KeptCheckpoint> kept,
                                               const RetentionRule& rule) {
  std::vector<std::string> names = selected(kept, rule);
  if (!std::ranges::all_of(kept, &KeptCheckpoint::is_order_known)) {
    std::vector<KeptCheckpoint> by_time(kept.begin(), kept.end());
    sort_unknown_order(by_time);
    const std::vector<std::string> also = selected(by_time, rule);
    std::erase_if(names, [&](const std::string& name) {
      return std::ranges::find(also, name) == also.end();
    });
  }
  return names;
}

void sort_unknown_order(std::vector<KeptCheckpoint>& kept) {
  if (!std::ranges::all_of(kept, &KeptCheckpoint::is_order_known)) {
    std::ranges::stable_sort(
        kept, {}, [](const KeptCheckpoint& one) { return std::tie(one.time, one.step); });
  }
}

}  // namespace tenon
