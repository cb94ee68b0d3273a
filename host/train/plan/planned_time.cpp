// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_time.hpp"

#include "host/model/program_visitor.hpp"
#include "host/train/plan/planned_traffic.hpp"

#include <algorithm>
#include <vector>

namespace tenon {
namespace {

using Crossing = PlannedLinks::Crossing;

class TimeVisitor final : public ProgramVisitor {
 public:
  TimeVisitor(const PlannedPass& pass, const PlannedLinks& links, const PlanMachine& machine)
      : pass_(pass),
        costs_(pass.subject.costs),
        links_(links),
        machine_(machine),
        is_on_host_(is_on_host(pass.subject, pass.choice)),
        users_(pass.groups.size(), 0),
        gathered_at_(pass.groups.size(), 0),
        reduced_at_(pass.groups.size(), 0) {}

  // All microbatches except the first and the last take the same time.
  PlanTime step() {
    const int64_t microbatches = pass_.subject.microbatches;
    start_gathers_of_update();
    for (int64_t m = 0; m < std::min<int64_t>(microbatches, 3); ++m) {
      const PlanTime before = time_;
      const double start = now_;
      is_last_microbatch_ = m + 1 == std::min<int64_t>(microbatches, 3);
      run(StageActionKind::kForward, 0);
      run(StageActionKind::kBackward, 0);
      if (m == 1 && microbatches > 3) {
        repeat(before, start, static_cast<double>(microbatches - 3));
      }
    }
    time_.step = end();
    time_.exposed = time_.step - time_.compute;
    return time_;
  }

  PlannedStageTimes stage_times() {
    PlannedStageTimes times{.rank = {}, .forward = {}, .backward = {}};
    const auto microbatches = static_cast<uint32_t>(pass_.subject.microbatches);
    times.forward.assign(pass_.programs.size(), 0);
    times.backward.assign(pass_.programs.size(), 0);
    start_gathers_of_update();
    for (const StageAction& action : pass_.schedule().actions(microbatches)) {
      const double start = now_;
      is_last_microbatch_ = action.microbatch + 1 == microbatches;
      run(action.kind, action.stage);
      const bool is_forward = action.kind == StageActionKind::kForward;
      (is_forward ? times.forward : times.backward)[action.stage] += (now_ - start) / microbatches;
    }
    add_up_tied();
    time_.step = end();
    time_.exposed = time_.step - time_.compute;
    times.after = time_.step - now_;
    times.rank = time_;
    return times;
  }

  void visit(const Instruction& instruction) override {
    switch (instruction.op) {
      case Op::kGather:
        if (users_[instruction.group]++ == 0) {  // else another microbatch keeps it whole
          gather(instruction.group);
        }
        break;
      case Op::kFree:
        --users_[instruction.group];
        break;
      case Op::kAwait:
        now_ = std::max(now_, gathered_at_[instruction.group]);
        if (instruction.has(kSettlesGradients)) {
          now_ = std::max(now_, reduced_at_[instruction.group]);
        }
        break;
      case Op::kReduce:
        reduce(instruction);
        break;
      case Op::kForward:
        forward(instruction);
        break;
      case Op::kBackward:
        backward(instruction);
        break;
      default:  // takes no time that a plan knows
        break;
    }
  }

 private:
  void run(StageActionKind kind, uint32_t stage) {
    program_ = pass_.programs[stage];
    if (kind == StageActionKind::kForward) {
      run(Section::kForward);
      return;
    }
    run(Section::kLosses);
    run(Section::kBackward);
    run(Section::kEnd);
  }
  void run(Section section) {
    interpret(*program_, section, {.is_last_microbatch = is_last_microbatch_}, *this);
  }

  double end() const { return std::max({now_, shard_, replicas_, world_}); }

  // Adds the microbatch that began at `start`, with the sums `before`, so often again.
  void repeat(const PlanTime& before, double start, double times) {
    const auto again = [times](double& sum, double earlier) { sum += times * (sum - earlier); };
    again(time_.compute, before.compute);
    again(time_.recompute, before.recompute);
    again(time_.communication, before.communication);
    again(time_.flops, before.flops);
    const double later = times * (now_ - start);
    for (double* const lane : {&now_, &shard_, &replicas_, &world_}) {
      *lane += later;
    }
    for (std::vector<double>* const ends : {&gathered_at_, &reduced_at_}) {
      for (double& end : *ends) {
        end += later;
      }
    }
  }

  // ---- the lane of computation ----

  void compute(double flops) {
    now_ += flops / machine_.flops;
    time_.compute += flops / machine_.flops;
  }

  void forward(const Instruction& instruction) {
    const double flops = costs_[instruction.block].forward_flops;
    compute(flops);
    if (instruction.has(kIsAgain)) {
      time_.recompute += flops / machine_.flops;
    } else {
      time_.flops += flops;
    }
  }

  // The backward of tiles runs their forwards again.
  void backward(const Instruction& instruction) {
    const BlockCost& cost = costs_[instruction.block];
    const double again = instruction.has(kInTiles) ? cost.forward_flops : 0;
    compute(again + cost.backward_flops);
    time_.flops += cost.backward_flops;
    time_.recompute += again / machine_.flops;
  }

  // ---- the lanes of transfers ----

  // Starts a transfer on a lane that is not before `earliest`. Returns when it ends.
  double transfer(double& lane, double earliest, double seconds) {
    if (seconds > 0) {
      lane = std::max(lane, earliest) + seconds;
      time_.communication += seconds;
    }
    return seconds > 0 ? lane : earliest;
  }

  double to_device_seconds(int64_t bytes) const {
    return is_on_host_ ? static_cast<double>(bytes) / machine_.bandwidth_host : 0;
  }

  void gather(uint32_t g) {
    const PlannedGroup& group = pass_.groups[g];
    gathered_at_[g] =
        transfer(shard_,
                 now_,
                 to_device_seconds(group.slice_seen()) +
                     links_.seconds(group.gather_bytes, group.facts.num_slices, &Crossing::shard));
  }

  // Parameters that are kept whole and updated by slices travel during the next step's first
  // forward, in the order in which blocks read them.
  void start_gathers_of_update() {
    std::vector<uint32_t> kept;
    for (uint32_t g = 0; g < pass_.groups.size(); ++g) {
      if (sent_by_update(pass_.groups[g]).gathered > 0) {
        kept.push_back(g);
      }
    }
    std::ranges::stable_sort(kept, [this](uint32_t a, uint32_t b) {
      return pass_.groups[a].facts.blocks < pass_.groups[b].facts.blocks;
    });
    for (const uint32_t g : kept) {
      gather(g);
    }
  }

  void reduce(const Instruction& instruction) {
    const PlannedGroup& group = pass_.groups[instruction.group];
    const SentBytes sent = sent_by(pass_, *program_, instruction, is_last_microbatch_);
    const int64_t copies = pass_.choice.copies(group.num_copies);
    double end = transfer(
        world_,
        now_,
        links_.seconds(sent.reduced_by_world, copies * pass_.choice.shard, &Crossing::world, 2));
    end = transfer(
        shard_, end, links_.seconds(sent.scattered, group.facts.num_slices, &Crossing::shard));
    end = transfer(
        replicas_, end, links_.seconds(sent.reduced_by_replica, copies, &Crossing::replicate, 2));
    end = transfer(shard_, end, group.is_bucketed ? 0 : to_device_seconds(group.slice_grad()));
    reduced_at_[instruction.group] = end;
  }

  // Gradients of parameters that stages share, when all others are complete.
  void add_up_tied() {
    for (size_t g = 0; g < pass_.groups.size(); ++g) {
      if (pass_.groups[g].tied_bytes > 0) {
        const std::vector<uint32_t>& holders = pass_.subject.groups[g].holders;
        const double seconds =
            links_.sum_seconds(pass_.groups[g].tied_bytes, holders, pass_.subject.pipeline_rank());
        world_ = transfer(world_, end(), seconds);
      }
    }
  }

  const PlannedPass& pass_;
  const std::vector<BlockCost>& costs_;
  const PlannedLinks& links_;
  const PlanMachine& machine_;
  const bool is_on_host_;
  const Program* program_ = nullptr;  // of the stage that runs
  std::vector<uint32_t> users_;       // by group: microbatches that keep it whole
  bool is_last_microbatch_ = true;
  PlanTime time_;
  // Seconds at which each lane has ended what was put on it.
  double now_ = 0;  // computation
  double shard_ = 0;
  double replicas_ = 0;
  double world_ = 0;
  std::vector<double> gathered_at_;  // by group: end of its last gather
  std::vector<double> reduced_at_;   // by group: end of its last reduction
};

}  // namespace

PlanTime planned_time(const PlannedPass& pass,
                      const PlannedLinks& links,
                      const PlanMachine& machine) {
  return TimeVisitor(pass, links, machine).step();
}

PlannedStageTimes planned_stage_times(const PlannedPass& pass,
                                      const PlannedLinks& links,
                                      const PlanMachine& machine) {
  return TimeVisitor(pass, links, machine).stage_times();
}

}  // namespace tenon
