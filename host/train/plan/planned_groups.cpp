// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_groups.hpp"

#include "host/train/plan/planned_links.hpp"

#include <algorithm>
#include <set>

namespace tenon {

FlatSharing planned_sharing(const GroupLayout& layout,
                            const PlanSubject& subject,
                            const PlanChoice& choice) {
  FlatSharing sharing;
  if (!layout.is_unsharded) {
    sharing = sharing_of({.stage = choice.stage,
                          .offloads = choice.offloads,
                          .reshard_after_forward = subject.reshard_after_forward},
                         choice.shard);
  }
  sharing.frees_gradients = subject.frees_gradients;
  return sharing;
}

at::ScalarType wire_of(const GroupLayout& layout, std::optional<at::ScalarType> gradient_dtype) {
  return layout.stored == at::kFloat ? gradient_dtype.value_or(at::kFloat) : layout.stored;
}

std::vector<PlannedBucket> buckets_of(const std::vector<GroupLayout>& layouts,
                                      const std::vector<PlannedGroup>& groups,
                                      const BucketSettings& settings) {
  std::vector<PlannedBucket> buckets;
  std::vector<size_t> members;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].is_bucketed && groups[g].use.first_back.has_value() && settings.ranks > 1) {
      members.push_back(g);
    }
  }
  std::ranges::stable_sort(members, [&](size_t a, size_t b) {
    const auto dtype = [&](size_t g) { return layouts[g].stored; };
    return dtype(a) != dtype(b) ? dtype(a) < dtype(b)
                                : *groups[a].use.first_back > *groups[b].use.first_back;
  });
  int64_t numel = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const GroupLayout& layout = layouts[members[i]];
    numel += layout.flat_numel(1);
    const bool is_full = numel * size_of(layout.stored) >= settings.bucket_bytes;
    const bool is_last = i + 1 == members.size() || layouts[members[i + 1]].stored != layout.stored;
    if (is_full || is_last) {
      const at::ScalarType wire = wire_of(layout, settings.gradient_dtype);
      buckets.push_back({.bytes = all_reduce_bytes(numel, wire, settings.ranks, settings.on_cpu),
                         .copy = wire != layout.stored ? numel * size_of(wire) : 0,
                         .ready = *groups[members[i]].use.first_back});
      numel = 0;
    }
  }
  return buckets;
}

int64_t optimizer_bytes(const GroupLayout& layout,
                        int64_t slices,
                        const std::vector<double>& rates_of_partitions) {
  const int64_t slice = layout.flat_numel(slices) / slices;
  std::set<double> rates;
  for (const uint32_t partition : layout.partitions) {
    rates.insert(rates_of_partitions[partition]);
  }
  if (rates.size() == 1) {
    return static_cast<int64_t>(static_cast<double>(slice) * *rates.begin());
  }
  // If optimizers differ, so do slices. The gap after a parameter counts as part of it.
  const std::vector<int64_t> ends = layout.ends(slices);
  double most = 0;
  for (int64_t s = 0; s < slices; ++s) {
    double bytes = 0;
    int64_t begin = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      const int64_t held = std::min(ends[i], (s + 1) * slice) - std::max(begin, s * slice);
      const double rate = rates_of_partitions[layout.partitions[i]];
      bytes += held > 0 ? static_cast<double>(held) * rate : 0;
      begin = ends[i];
    }
    most = std::max(most, bytes);
  }
  return static_cast<int64_t>(most);
}

}  // namespace tenon
