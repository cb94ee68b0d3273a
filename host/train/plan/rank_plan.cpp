// SPDX-License-Identifier: Apache-2.0
//
// Source: stages: Rajbhandari et al., ZeRO (2020), arXiv:1910.02054.
#include "host/train/plan/rank_plan.hpp"

#include <tenon/model.h>

#include "host/model/group_facts.hpp"
#include "host/plugin/parameter_average_proxy.hpp"
#include "host/train/plan/planned_activations.hpp"
#include "host/train/plan/planned_groups.hpp"
#include "host/train/plan/planned_links.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace tenon {
namespace {

using Crossing = PlannedLinks::Crossing;

class Planned {
 public:
  Planned(const PlanSubject& subject, const PlanChoice& choice, const PlanMachine& machine)
      : subject_(subject),
        graph_(subject.graph),
        machine_(machine),
        links_(choice.replicate, choice.shard, machine),
        grad_bytes_(gradient_bytes(subject)),
        facts_(subject.graph, [this](uint32_t p) { return grad_bytes_[p] > 0; }) {
    plan_.choice = choice;
    for (const GroupLayout& layout : subject.groups) {
      share(layout);
    }
    buckets_ = buckets_of(subject.groups,
                          groups_,
                          {.ranks = choice.replicate * choice.shard,
                           .bucket_bytes = subject.bucket_bytes,
                           .gradient_dtype = subject.gradient_dtype,
                           .on_cpu = !subject.has_host});
    gathered_in_.resize(graph_.blocks.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const uint32_t b : subject.groups[g].blocks) {
        gathered_in_[b].push_back(g);
      }
    }
    activations_.emplace(subject, choice, facts_, grad_bytes_);
  }

  RankPlan plan() {
    plan_.memory.batches = subject_.batch_bytes * subject_.batches_held;
    plan_.memory.buffers = subject_.buffer_bytes;
    walk_memory();
    count_traffic();
    time_step();
    return plan_;
  }

 private:
  uint32_t num_blocks() const { return static_cast<uint32_t>(graph_.blocks.size()); }

  // Returns the bytes of each parameter's gradient; 0 if it is frozen.
  static std::vector<int64_t> gradient_bytes(const PlanSubject& subject) {
    const std::vector<ModelParameter>& parameters = subject.graph.parameters;
    std::vector<int64_t> bytes(parameters.size(), 0);
    for (const GroupLayout& layout : subject.groups) {
      for (size_t i = 0; layout.is_trainable && i < layout.parameters.size(); ++i) {
        bytes[layout.parameters[i]] = layout.numels[i] * size_of(layout.seen);
      }
    }
    for (size_t p = 0; p < parameters.size(); ++p) {
      if (const uint32_t same_as = parameters[p].same_as; same_as != kNoIndex) {
        bytes[p] = bytes[same_as];
      }
    }
    return bytes;
  }

  // ---- persistent memory ----

  bool on_host() const { return plan_.choice.offloads && subject_.has_host; }

  void share(const GroupLayout& layout) {
    const PlanChoice& choice = plan_.choice;
    PlannedGroup shared;
    const FlatSharing sharing = planned_sharing(layout, subject_, choice);
    shared.facts = facts_of(layout, sharing);
    shared.use = use_of(facts_, layout.blocks, subject_.reshard_after_forward);
    shared.is_bucketed =
        layout.is_trainable && sharing.num_slices == 1 && shared.facts.keeps_gradients;

    const int64_t numel = layout.flat_numel(shared.facts.num_slices);
    const int64_t slice = numel / shared.facts.num_slices;
    const int64_t stored = size_of(layout.stored);
    const int64_t seen = size_of(layout.seen);
    const int64_t wire = size_of(wire_of(layout, subject_.gradient_dtype));
    shared.whole_seen = numel * seen;
    shared.whole_grad = layout.is_trainable ? numel * stored : 0;
    shared.wire_grad = layout.is_trainable ? numel * wire : 0;

    PlanMemory& memory = plan_.memory;
    const bool is_away = on_host() && !shared.facts.keeps_parameters;
    const bool has_copy = layout.stored != layout.seen || !shared.facts.keeps_parameters;
    (is_away ? memory.host : memory.parameters) += has_copy ? slice * stored : 0;
    memory.parameters += shared.facts.keeps_parameters ? shared.whole_seen : 0;
    shared.gather_copy = is_away || layout.stored != layout.seen ? slice * seen : 0;
    if (layout.is_trainable) {
      const int64_t kept = shared.facts.keeps_gradients ? shared.whole_grad : slice * stored;
      (is_away ? memory.host : memory.gradients) += subject_.frees_gradients ? 0 : kept;
      (is_away ? memory.host : memory.optimizer) +=
          optimizer_bytes(layout, shared.facts.num_slices, subject_.optimizer_bytes);
      (is_away ? memory.host : memory.averages) +=
          subject_.has_averages ? slice * size_of(average_dtype(layout.stored)) : 0;
    }
    const int64_t others = shared.facts.num_slices - 1;
    shared.gather_bytes = others * slice * seen;
    shared.reduce_bytes = layout.is_trainable ? others * slice * wire : 0;
    if (layout.is_trainable && !layout.is_unsharded && !shared.is_bucketed) {
      shared.all_reduce_bytes = all_reduce_bytes(
          slice, wire_of(layout, subject_.gradient_dtype), choice.replicate, !subject_.has_host);
    }
    groups_.push_back(shared);
  }

  // ---- peak memory ----

  const PlannedActivations& held() const { return *activations_; }
  struct Live {
    int64_t gathered = 0;
    int64_t activations = 0;
  };

  void note(const Live& live, const char* what, uint32_t b) {
    PlanMemory& memory = plan_.memory;
    if (live.gathered + live.activations > memory.gathered + memory.activations) {
      memory.gathered = live.gathered;
      memory.activations = live.activations;
      memory.moment = std::string(what) + " of block '" + graph_.blocks[b].name + "'";
    }
  }

  // Gathers the groups that block b uses, except groups that stay unsharded.
  // Returns the bytes of copies that are needed only until they have been sent.
  int64_t acquire(uint32_t b, Live& live) {
    int64_t copies = 0;
    for (const size_t g : gathered_in_[b]) {
      if (!groups_[g].facts.keeps_parameters && held_.insert(g).second) {
        live.gathered += groups_[g].whole_seen + groups_[g].gather_copy;
        copies += groups_[g].gather_copy;
      }
    }
    return copies;
  }
  int64_t acquire_for_backward(uint32_t b, Live& live) {
    return facts_.has_backward(b) ? acquire(b, live) : 0;
  }
  void release(size_t g, Live& live) {
    if (held_.erase(g) > 0) {
      live.gathered -= groups_[g].whole_seen;
    }
  }

  // Returns the nearest earlier block with a backward, or nothing.
  std::optional<uint32_t> next_backward(uint32_t b) const {
    while (b-- > 0) {
      if (facts_.has_backward(b)) {
        return b;
      }
    }
    return std::nullopt;
  }

  // Forgets the values without a backward that block b is the last to read. Returns their bytes.
  int64_t drop_read_values(uint32_t b) {
    int64_t bytes = 0;
    for (const uint32_t v : facts_.last_read_by(b)) {
      if (!facts_.has_backward(graph_.values[v].maker)) {
        bytes += activations_->forget(v);
      }
    }
    return bytes;
  }

  void walk_losses(Live& live, std::vector<int64_t>& grads) {
    for (const PlannedLoss& loss : subject_.losses) {
      for (const uint32_t v : loss.values) {
        if (grads[v] == 0 && facts_.has_gradient(v)) {
          grads[v] = held().value_bytes(v);
          live.activations += grads[v];
        }
        Live with = live;
        with.activations +=
            loss.is_hand_written ? 0 : held().value_bytes(v);  // roughly what it reads
        with.activations += static_cast<int64_t>(subject_.tile_share.value_or(1.0) *
                                                 static_cast<double>(loss.working_bytes));
        note(with, "loss", num_blocks() - 1);
      }
    }
    note(live, "loss", num_blocks() - 1);
    if (held().is_chunked(num_blocks() - 1)) {  // gradients of its inputs, assembled from chunks
      for (const uint32_t v : graph_.blocks.back().inputs) {
        live.activations += facts_.has_gradient(v) ? held().value_bytes(v) : 0;
        grads[v] += facts_.has_gradient(v) ? held().value_bytes(v) : 0;
      }
    }
  }

  void walk_memory() {
    Live live;
    for (uint32_t b = 0; b < num_blocks(); ++b) {
      live.gathered -= acquire(b, live);
      // Parameters of the next unit are gathered while b runs.
      const uint32_t next = facts_.unit_of(b).last + 1;
      const int64_t copies = next < num_blocks() ? acquire(next, live) : 0;
      live.activations += held().row_bytes(b) + held().output_bytes(b) +
                          held().kept_bytes(b, facts_.has_backward(b));
      note(live, "forward", b);
      live.gathered -= copies;
      live.activations -= drop_read_values(b);
      for (const size_t g : gathered_in_[b]) {
        if (groups_[g].use.last == b && !groups_[g].use.stays_after_forward) {
          release(g, live);
        }
      }
      if (b == facts_.unit_of(b).last) {
        live.activations -=
            held().dropped_bytes(facts_.unit_of(b).first, b) + held().moved_bytes(b);
      }
    }
    std::vector<int64_t> grads(graph_.values.size(), 0);  // by value: bytes in memory
    walk_losses(live, grads);
    int64_t reducing = 0;  // unsharded gradients, reduced while the next block runs
    for (uint32_t b = num_blocks(); b-- > 0;) {
      bring_back(b, live);
      if (facts_.has_backward(b)) {
        walk_backward(b, live, grads, reducing);
      }
      const bool is_here = recomputed_unit_ == facts_.unit_of(b).first && recomputed_to_ >= b;
      if (is_here && !facts_.has_backward(b)) {
        live.activations -= held().second_outputs(b);
      }
      if (const uint32_t last = facts_.unit_of(b).last;
          facts_.unit_of(b).first == b && held().moved_bytes(last) > 0) {
        live.activations -= activations_->drop_moved(last);
      }
      live.activations -= held().held_outputs(b) - (is_here ? 0 : held().dropped_bytes(b, b));
      live.activations -= held().row_bytes(b);
      for (const std::vector<uint32_t>* const values :
           {&facts_.rows_first_read_by(b), &graph_.blocks[b].outputs}) {
        for (const uint32_t v : *values) {
          live.activations -= std::exchange(grads[v], 0);
        }
      }
    }
  }

  // Adds what was moved away of the unit that ends with block b, and of the one that is read ahead.
  void bring_back(uint32_t b, Live& live) {
    if (facts_.unit_of(b).last != b || held().moved_bytes(b) == 0) {
      return;
    }
    live.activations += read_ahead_ == b ? 0 : held().moved_bytes(b);
    read_ahead_ = held().moved_before(b);
    live.activations += read_ahead_ < num_blocks() ? held().moved_bytes(read_ahead_) : 0;
  }

  void walk_backward(uint32_t b, Live& live, std::vector<int64_t>& grads, int64_t& reducing) {
    live.gathered -= acquire(b, live);
    const uint32_t first = facts_.unit_of(b).first;
    const int64_t copies = first > 0 ? acquire_for_backward(first - 1, live) : 0;
    if (held().is_recomputed(b) && recomputed_unit_ != first) {
      recomputed_unit_ = first;
      recomputed_to_ = b;
      for (uint32_t again = first; again <= b; ++again) {
        live.activations += held().recompute_bytes(again, facts_.has_backward(again));
      }
    }
    Live now = live;
    now.activations += held().working_bytes(b);
    note(now, "backward", b);
    // Saved activations and second copies of outputs are freed; the results exist and are added to
    // the gradients.
    live.activations -= held().saved_bytes(b) + held().second_outputs(b);
    for (const uint32_t v : graph_.blocks[b].inputs) {
      if (facts_.has_gradient(v) && grads[v] == 0) {
        grads[v] = held().value_bytes(v);
        live.activations += grads[v];
      }
    }
    int64_t begun = 0;
    for (const size_t g : gathered_in_[b]) {
      const PlannedGroup& group = groups_[g];
      if (!group.facts.keeps_gradients && grads_held_.insert(g).second) {
        live.gathered += group.whole_grad;
      }
      begun += group.use.first_back == b ? begins(group) : 0;
    }
    now = live;
    now.activations += held().parameter_grad_bytes(b);
    note(now, "backward", b);
    live.gathered -= reducing + copies;
    for (const size_t g : gathered_in_[b]) {
      const PlannedGroup& group = groups_[g];
      if (group.use.first_back == b) {
        release(g, live);
        live.gathered += begins(group) - (group.facts.keeps_gradients ? 0 : group.whole_grad);
      }
    }
    reducing = begun;
    for (const PlannedBucket& bucket : buckets_) {
      live.gathered += bucket.ready == b ? bucket.copy : 0;
    }
    note(live, "backward", b);
  }

  // Returns the temporary bytes of a reduction of the group's gradients. They are the unsharded
  // gradients with their slice of the sum, if not kept; the copy in the wire dtype, if it differs;
  // and on CPUs the receive buffer.
  int64_t begins(const PlannedGroup& group) const {
    if (group.is_bucketed || group.whole_grad == 0) {
      return 0;
    }
    const int64_t kept = group.facts.keeps_gradients
                             ? 0
                             : group.whole_grad + group.whole_grad / group.facts.num_slices;
    const int64_t narrowed = group.wire_grad != group.whole_grad ? group.wire_grad : 0;
    const int64_t received = !subject_.has_host && group.facts.num_slices > 1 ? group.wire_grad : 0;
    return kept + narrowed + received;
  }

  // ---- traffic ----

  // Returns how often a group's parameters are gathered in a microbatch.
  static int64_t gathers(const PlannedGroup& group) {
    return !group.use.last_back.has_value() || group.use.stays_after_forward ? 1 : 2;
  }
  // Returns how often a slice's gradients are summed over replicas in a step.
  int64_t sums() const { return on_host() ? subject_.microbatches : 1; }

  void count_traffic() {
    PlanTraffic& traffic = plan_.traffic;
    int64_t by_shard = 0;
    int64_t by_replicate = 0;
    int64_t by_world = 0;
    for (const PlannedGroup& group : groups_) {
      const int64_t gathered =
          group.gather_bytes *
          (group.facts.keeps_parameters ? 1 : gathers(group) * subject_.microbatches);
      const int64_t scattered =
          group.reduce_bytes * (group.facts.keeps_gradients ? 1 : subject_.microbatches);
      traffic.all_gather.sent += gathered;
      traffic.reduce_scatter.sent += scattered;
      by_shard += gathered + scattered;
      by_replicate += group.all_reduce_bytes * sums();
    }
    for (const PlannedBucket& bucket : buckets_) {
      by_world += bucket.bytes;
    }
    traffic.all_reduce.sent = by_replicate + by_world;
    traffic.all_gather.between_nodes =
        links_.mean_between(traffic.all_gather.sent, &Crossing::shard);
    traffic.reduce_scatter.between_nodes =
        links_.mean_between(traffic.reduce_scatter.sent, &Crossing::shard);
    traffic.all_reduce.between_nodes = links_.mean_between(by_replicate, &Crossing::replicate) +
                                       links_.mean_between(by_world, &Crossing::world);
    traffic.leaving_node = links_.leaving(by_shard, &Crossing::shard) +
                           links_.leaving(by_replicate, &Crossing::replicate) +
                           links_.leaving(by_world, &Crossing::world);
  }

  // ---- seconds ----

  double gather_seconds(const PlannedGroup& group) const {
    const double copy = on_host() ? static_cast<double>(group.whole_seen / group.facts.num_slices) /
                                        machine_.bandwidth_host
                                  : 0;
    return copy + links_.seconds(group.gather_bytes, group.facts.num_slices, &Crossing::shard);
  }

  // Returns the seconds to gather the parameters of block b before it runs. Parameters that stay
  // unsharded are gathered once per step, in the first microbatch after the optimizer's update.
  double gather_for(uint32_t b, bool is_backward, bool is_first) const {
    double seconds = 0;
    for (const size_t g : gathered_in_[b]) {
      const PlannedGroup& group = groups_[g];
      const bool is_here = is_backward ? group.use.last_back == b && !group.use.stays_after_forward
                                       : group.use.first == b;
      const bool is_due = group.facts.keeps_parameters ? is_first && !is_backward : true;
      seconds += is_here && is_due ? gather_seconds(group) : 0;
    }
    return seconds;
  }
  // Returns the seconds to reduce the gradients of block b after it ran.
  double reduce_for(uint32_t b, bool is_last) const {
    double seconds = 0;
    for (const size_t g : gathered_in_[b]) {
      const PlannedGroup& group = groups_[g];
      if (group.use.first_back != b || group.is_bucketed) {
        continue;
      }
      if (is_last || !group.facts.keeps_gradients) {
        seconds += links_.seconds(group.reduce_bytes, group.facts.num_slices, &Crossing::shard);
        seconds += on_host() ? static_cast<double>(group.whole_grad / group.facts.num_slices) /
                                   machine_.bandwidth_host
                             : 0;
      }
      if (is_last || on_host()) {
        seconds +=
            links_.seconds(group.all_reduce_bytes, plan_.choice.replicate, &Crossing::replicate, 2);
      }
    }
    const int64_t ranks = plan_.choice.replicate * plan_.choice.shard;
    for (const PlannedBucket& bucket : buckets_) {
      seconds += bucket.ready == b && is_last
                     ? links_.seconds(bucket.bytes, ranks, &Crossing::world, 2)
                     : 0;
    }
    return seconds;
  }

  void time_step() {
    PlanTime& time = plan_.time;
    // All microbatches except the first and the last take the same time.
    const int64_t between = std::max<int64_t>(0, subject_.microbatches - 2);
    add_microbatch(true, subject_.microbatches == 1, 1);
    if (between > 0) {
      add_microbatch(false, false, static_cast<double>(between));
    }
    if (subject_.microbatches > 1) {
      add_microbatch(false, true, 1);
    }
    time.exposed = time.step - time.compute;
  }

  void add_microbatch(bool is_first, bool is_last, double times) {
    PlanTime one;
    time_microbatch(is_first, is_last, one);
    PlanTime& time = plan_.time;
    time.compute += times * one.compute;
    time.recompute += times * one.recompute;
    time.communication += times * one.communication;
    time.step += times * one.step;
    time.flops += times * one.flops;
  }

  void time_microbatch(bool is_first_batch, bool is_last, PlanTime& time) const {
    const auto overlap = [&time](double compute, double communication) {
      time.compute += compute;
      time.communication += communication;
      time.step += std::max(compute, communication);
    };
    overlap(0, gather_for(0, false, is_first_batch));
    for (uint32_t b = 0; b < num_blocks(); ++b) {
      const double flops = subject_.costs[b].forward_flops;
      time.flops += flops;
      overlap(flops / machine_.flops,
              b + 1 < num_blocks() ? gather_for(b + 1, false, is_first_batch) : 0);
    }
    double reducing = 0;
    bool is_first = true;
    for (uint32_t b = num_blocks(); b-- > 0;) {
      if (!facts_.has_backward(b)) {
        continue;
      }
      if (is_first) {
        overlap(0, gather_for(b, true, false));
        is_first = false;
      }
      const BlockCost& cost = subject_.costs[b];
      time.flops += cost.backward_flops;
      const double again = held().is_light(b) ? cost.forward_flops / machine_.flops : 0;
      time.recompute += again;
      const auto next = next_backward(b);
      overlap(cost.backward_flops / machine_.flops + again,
              reducing + (next.has_value() ? gather_for(*next, true, false) : 0));
      reducing = reduce_for(b, is_last);
    }
    overlap(0, reducing);
  }

  const PlanSubject& subject_;
  const ModelGraph& graph_;
  const PlanMachine& machine_;
  PlannedLinks links_;
  const std::vector<int64_t> grad_bytes_;  // by parameter; 0 if frozen
  const GraphFacts facts_;
  RankPlan plan_;
  std::vector<PlannedGroup> groups_;
  std::vector<PlannedBucket> buckets_;
  std::vector<std::vector<size_t>> gathered_in_;  // by block: the groups that it uses
  uint32_t recomputed_unit_ = kNoIndex;           // first block of the unit recomputed last
  uint32_t recomputed_to_ = 0;                    // its last block that was recomputed
  std::optional<PlannedActivations> activations_;
  uint32_t read_ahead_ = kNoIndex;  // end of the unit that is brought back ahead of its backward
  std::set<size_t> held_;
  std::set<size_t> grads_held_;
};

}  // namespace

RankPlan plan_rank(const PlanSubject& subject,
                   const PlanChoice& choice,
                   const PlanMachine& machine) {
  return Planned(subject, choice, machine).plan();
}

}  // namespace tenon
