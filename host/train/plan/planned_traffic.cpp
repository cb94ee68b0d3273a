// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_traffic.hpp"

#include "host/model/program_visitor.hpp"

namespace tenon {
namespace {

using Crossing = PlannedLinks::Crossing;

// Sums the bytes of a microbatch.
class TrafficVisitor final : public ProgramVisitor {
 public:
  TrafficVisitor(const PlannedPass& pass, bool is_last_microbatch)
      : pass_(pass), is_last_microbatch_(is_last_microbatch) {
    for (const Section section :
         {Section::kForward, Section::kLosses, Section::kBackward, Section::kEnd}) {
      interpret(pass.program, section, {.is_last_microbatch = is_last_microbatch}, *this);
    }
  }

  void visit(const Instruction& instruction) override {
    const SentBytes sent = sent_by(pass_, instruction, is_last_microbatch_);
    sum_.gathered += sent.gathered;
    sum_.scattered += sent.scattered;
    sum_.reduced_by_replica += sent.reduced_by_replica;
    sum_.reduced_by_world += sent.reduced_by_world;
  }

  const SentBytes& sum() const { return sum_; }

 private:
  const PlannedPass& pass_;
  const bool is_last_microbatch_;
  SentBytes sum_;
};

}  // namespace

SentBytes sent_by(const PlannedPass& pass,
                  const Instruction& instruction,
                  bool is_last_microbatch) {
  SentBytes sent;
  if (instruction.op != Op::kGather && instruction.op != Op::kReduce) {
    return sent;
  }
  const PlannedGroup& group = pass.groups[instruction.group];
  if (instruction.op == Op::kGather) {
    sent.gathered = group.gather_bytes;
  } else if (group.is_bucketed) {
    sent.reduced_by_world = group.completes.has_value() ? group.completes->bytes : 0;
  } else {
    sent.scattered = group.reduce_bytes;
    // Slices on the device are summed over replicas once a step.
    const bool is_summed = is_last_microbatch || is_on_host(pass.subject, pass.choice);
    sent.reduced_by_replica = is_summed ? group.all_reduce_bytes : 0;
  }
  return sent;
}

SentBytes sent_by_update(const PlannedGroup& group) {
  return {.gathered = group.facts.keeps_parameters ? group.gather_bytes : 0};
}

PlanTraffic planned_traffic(const PlannedPass& pass, const PlannedLinks& links) {
  const SentBytes last = TrafficVisitor(pass, true).sum();
  const SentBytes other = TrafficVisitor(pass, false).sum();
  const int64_t others = pass.subject.microbatches - 1;
  int64_t gathered = last.gathered + others * other.gathered;
  for (const PlannedGroup& group : pass.groups) {
    gathered += sent_by_update(group).gathered;
  }
  const int64_t scattered = last.scattered + others * other.scattered;
  const int64_t by_replica = last.reduced_by_replica + others * other.reduced_by_replica;
  const int64_t by_world = last.reduced_by_world + others * other.reduced_by_world;
  PlanTraffic traffic;
  traffic.all_gather = {.sent = gathered,
                        .between_nodes = links.mean_between(gathered, &Crossing::shard)};
  traffic.reduce_scatter = {.sent = scattered,
                            .between_nodes = links.mean_between(scattered, &Crossing::shard)};
  traffic.all_reduce = {.sent = by_replica + by_world,
                        .between_nodes = links.mean_between(by_replica, &Crossing::replicate) +
                                         links.mean_between(by_world, &Crossing::world)};
  traffic.leaving_node = links.leaving(gathered + scattered, &Crossing::shard) +
                         links.leaving(by_replica, &Crossing::replicate) +
                         links.leaving(by_world, &Crossing::world);
  return traffic;
}

}  // namespace tenon
