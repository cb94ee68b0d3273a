// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_traffic.hpp"

#include "host/model/program_visitor.hpp"
#include "host/model/stage_exchange.hpp"

#include <algorithm>
#include <vector>

namespace tenon {
namespace {

using Crossing = PlannedLinks::Crossing;

// Sums the bytes of a step. Without a pipeline, all microbatches but the last one are alike.
class TrafficVisitor final : public ProgramVisitor {
 public:
  TrafficVisitor(const PlannedPass& pass, const PlannedLinks& links)
      : pass_(pass), links_(links), users_(pass.groups.size(), 0) {
    const uint32_t num_microbatches = pass.num_microbatches(2);
    const int64_t alike = pass.subject.microbatches - num_microbatches + 1;
    for (const StageAction& action : pass.schedule().actions(num_microbatches)) {
      is_last_microbatch_ = action.microbatch + 1 == num_microbatches;
      times_ = is_last_microbatch_ ? 1 : alike;
      program_ = pass.programs[action.stage];
      if (action.kind == StageActionKind::kForward) {
        run(Section::kForward);
      } else {
        run(Section::kLosses);
        run(Section::kBackward);
        run(Section::kEnd);
      }
    }
  }

  void visit(const Instruction& instruction) override {
    if (instruction.op == Op::kFree) {
      --users_[instruction.group];
    }
    if (instruction.op == Op::kGather && users_[instruction.group]++ > 0) {
      return;  // another microbatch keeps it whole
    }
    const SentBytes sent = sent_by(pass_, *program_, instruction, is_last_microbatch_);
    sum_.gathered += times_ * sent.gathered;
    sum_.scattered += times_ * sent.scattered;
    sum_.reduced_by_replica += times_ * sent.reduced_by_replica;
    sum_.reduced_by_world += times_ * sent.reduced_by_world;
    if (sent.messages > 0) {
      const uint32_t to = pass_.subject.graph.stage_owners[instruction.stage];
      add_message(times_ * sent.messages, to);
    }
  }

  void add_message(int64_t bytes, uint32_t to) {
    const auto distance =
        static_cast<int64_t>(to) - static_cast<int64_t>(pass_.subject.pipeline_rank());
    sum_.messages += bytes;
    messages_away_ += links_.share_away(distance) * static_cast<double>(bytes);
  }

  const SentBytes& sum() const { return sum_; }
  int64_t messages_away() const { return static_cast<int64_t>(messages_away_); }

 private:
  void run(Section section) {
    interpret(*program_, section, {.is_last_microbatch = is_last_microbatch_}, *this);
  }

  const PlannedPass& pass_;
  const PlannedLinks& links_;
  std::vector<uint32_t> users_;  // by group: microbatches that keep it whole
  const Program* program_ = nullptr;
  bool is_last_microbatch_ = true;
  int64_t times_ = 1;
  SentBytes sum_;
  double messages_away_ = 0;
};

// Bytes of the gradients of parameters that stages share, and the part to other machines.
PlanTraffic::Kind sent_to_holders(const PlannedPass& pass, const PlannedLinks& links) {
  PlanTraffic::Kind sent;
  for (size_t g = 0; g < pass.groups.size(); ++g) {
    const int64_t bytes = pass.groups[g].tied_bytes;
    if (bytes == 0) {
      continue;
    }
    const std::vector<uint32_t>& holders = pass.subject.groups[g].holders;
    const uint32_t here = pass.subject.pipeline_rank();
    const auto at = static_cast<size_t>(std::ranges::find(holders, here) - holders.begin());
    const auto distance = static_cast<int64_t>(holders[(at + 1) % holders.size()]) - here;
    sent.sent += bytes;
    sent.between_nodes +=
        static_cast<int64_t>(links.share_away(distance) * static_cast<double>(bytes));
  }
  return sent;
}

}  // namespace

int64_t message_bytes(const PlanSubject& subject, uint32_t value) {
  const uint32_t maker = subject.graph.values[value].maker;
  const std::vector<uint32_t>& outputs = subject.graph.blocks[maker].outputs;
  const auto at = static_cast<size_t>(std::ranges::find(outputs, value) - outputs.begin());
  return subject.costs[maker].bytes_of_output[at] + stage_header_bytes();
}

SentBytes sent_by(const PlannedPass& pass,
                  const Program& program,
                  const Instruction& instruction,
                  bool is_last_microbatch) {
  SentBytes sent;
  if (instruction.op == Op::kSend || instruction.op == Op::kSendGradients) {
    for (const uint32_t v : program.values(instruction)) {
      sent.messages += message_bytes(pass.subject, v);
    }
    return sent;
  }
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
  const TrafficVisitor visitor(pass, links);
  const SentBytes& sum = visitor.sum();
  int64_t gathered = sum.gathered;
  for (const PlannedGroup& group : pass.groups) {
    gathered += sent_by_update(group).gathered;
  }
  const int64_t scattered = sum.scattered;
  const int64_t by_replica = sum.reduced_by_replica;
  const int64_t by_world = sum.reduced_by_world;
  const PlanTraffic::Kind by_holders = sent_to_holders(pass, links);
  PlanTraffic traffic;
  traffic.all_gather = {.sent = gathered,
                        .between_nodes = links.mean_between(gathered, &Crossing::shard)};
  traffic.reduce_scatter = {.sent = scattered,
                            .between_nodes = links.mean_between(scattered, &Crossing::shard)};
  traffic.all_reduce = {.sent = by_replica + by_world + by_holders.sent,
                        .between_nodes = links.mean_between(by_replica, &Crossing::replicate) +
                                         links.mean_between(by_world, &Crossing::world) +
                                         by_holders.between_nodes};
  traffic.messages = {.sent = sum.messages, .between_nodes = visitor.messages_away()};
  traffic.leaving_node =
      links.leaving(gathered + scattered, &Crossing::shard) +
      links.leaving(by_replica, &Crossing::replicate) + links.leaving(by_world, &Crossing::world) +
      links.messages_leaving(traffic.messages.between_nodes + by_holders.between_nodes);
  return traffic;
}

}  // namespace tenon
