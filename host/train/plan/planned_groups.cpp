// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_groups.hpp"

#include "host/train/plan/planned_links.hpp"

#include <algorithm>
#include <set>
#include <utility>

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

namespace {

PlannedGroup planned_group(const GroupLayout& layout,
                           const PlanSubject& subject,
                           const PlanChoice& choice) {
  PlannedGroup group;
  const FlatSharing sharing = planned_sharing(layout, subject, choice);
  group.facts = facts_of(layout, sharing);
  group.num_copies = layout.num_copies;
  if (layout.is_elsewhere) {
    return group;  // no bytes, and in no bucket
  }
  group.is_bucketed = layout.is_trainable && sharing.num_slices == 1 && group.facts.keeps_gradients;
  const int64_t numel = layout.flat_numel(sharing.num_slices);
  const int64_t slice = numel / sharing.num_slices;
  const at::ScalarType on_wire = wire_of(layout, subject.gradient_dtype);
  const int64_t wire = size_of(on_wire);
  group.whole_seen = numel * size_of(layout.seen);
  group.whole_grad = layout.is_trainable ? numel * size_of(layout.stored) : 0;
  group.wire_grad = layout.is_trainable ? numel * wire : 0;
  const bool is_away = is_on_host(subject, choice) && !group.facts.keeps_parameters;
  group.gather_copy = is_away || layout.stored != layout.seen ? slice * size_of(layout.seen) : 0;
  const int64_t others = sharing.num_slices - 1;
  group.gather_bytes = others * slice * size_of(layout.seen);
  group.reduce_bytes = layout.is_trainable ? others * slice * wire : 0;
  if (layout.is_trainable) {
    group.tied_bytes = all_reduce_bytes(
        slice, on_wire, static_cast<int64_t>(layout.holders.size()), !subject.has_host);
  }
  if (layout.is_trainable && !layout.is_unsharded && !group.is_bucketed) {
    group.all_reduce_bytes =
        all_reduce_bytes(slice, on_wire, choice.copies(layout.num_copies), !subject.has_host);
  }
  return group;
}

// Puts neighbors in buckets, by number of copies and dtype, in the order in which a backward
// finishes them.
void put_in_buckets(const PlanSubject& subject,
                    const PlanChoice& choice,
                    const GraphFacts& facts,
                    std::vector<PlannedGroup>& groups) {
  const std::vector<GroupLayout>& layouts = subject.groups;
  std::vector<std::pair<size_t, uint32_t>> members;  // the group, and its last block in backward
  for (size_t g = 0; g < groups.size(); ++g) {
    const GroupUse use = use_of(facts, layouts[g].blocks, subject.reshard_after_forward);
    if (is_summed(groups[g], choice) && use.first_back.has_value()) {
      members.emplace_back(g, *use.first_back);
    }
  }
  std::ranges::stable_sort(members, [&layouts](const auto& a, const auto& b) {
    const auto kind = [&layouts](size_t g) {
      return std::pair(layouts[g].num_copies, layouts[g].stored);
    };
    return kind(a.first) != kind(b.first) ? kind(a.first) < kind(b.first) : a.second > b.second;
  });
  int64_t numel = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const GroupLayout& layout = layouts[members[i].first];
    numel += layout.flat_numel(1);
    const bool is_full = numel * size_of(layout.stored) >= subject.bucket_bytes;
    const bool is_last = i + 1 == members.size() ||
                         layouts[members[i + 1].first].num_copies != layout.num_copies ||
                         layouts[members[i + 1].first].stored != layout.stored;
    if (is_full || is_last) {
      const at::ScalarType wire = wire_of(layout, subject.gradient_dtype);
      const int64_t ranks = choice.copies(layout.num_copies) * choice.shard;
      groups[members[i].first].completes = {
          .bytes = all_reduce_bytes(numel, wire, ranks, !subject.has_host),
          .copy = wire != layout.stored ? numel * size_of(wire) : 0};
      numel = 0;
    }
  }
}

}  // namespace

bool is_summed(const PlannedGroup& group, const PlanChoice& choice) {
  return group.is_bucketed && choice.copies(group.num_copies) * choice.shard > 1;
}

std::vector<PlannedGroup> planned_groups(const PlanSubject& subject,
                                         const PlanChoice& choice,
                                         const GraphFacts& facts) {
  std::vector<PlannedGroup> groups;
  for (const GroupLayout& layout : subject.groups) {
    groups.push_back(planned_group(layout, subject, choice));
  }
  put_in_buckets(subject, choice, facts, groups);
  return groups;
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

int64_t optimizer_rounding(const GroupLayout& layout, int64_t slices, const PlanSubject& subject) {
  if (subject.block_bytes == nullptr || subject.optimizer_slots.empty()) {
    return 0;
  }
  const int64_t slice = layout.flat_numel(slices) / slices;
  const std::vector<int64_t> ends = layout.ends(slices);
  int64_t rounding = 0;
  int64_t begin = 0;
  for (size_t i = 0; i < ends.size() && begin < slice; ++i) {
    const uint32_t partition = layout.partitions[i];
    if (i + 1 < ends.size() && layout.partitions[i + 1] == partition) {
      continue;
    }
    const int64_t held = std::min(ends[i], slice) - begin;
    const auto slots = static_cast<int64_t>(subject.optimizer_slots[partition]);
    if (slots > 0) {
      const double bytes = static_cast<double>(held) * subject.optimizer_bytes[partition];
      rounding += slots * subject.rounding_of(static_cast<int64_t>(bytes) / slots);
    }
    begin = ends[i];
  }
  return rounding;
}

}  // namespace tenon
