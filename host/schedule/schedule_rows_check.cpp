// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/schedule_rows_check.hpp"

#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace tenon {
namespace {

using K = StageActionKind;
using Problem = std::optional<ScheduleProblem>;

std::string microbatches_text(uint32_t count) {
  return counted(count, "microbatch", "microbatches");
}

class RowsCheck {
 public:
  RowsCheck(const PipelineSchedule& schedule, SchedulePass pass)
      : schedule_(schedule), pass_(pass), rank_of_(schedule.ranks_of_stages()) {}

  Problem find() {
    for (const auto part : {&RowsCheck::find_misplaced,
                            &RowsCheck::find_missing_forward,
                            &RowsCheck::find_misordered,
                            &RowsCheck::find_missing_backward}) {
      if (Problem problem = (this->*part)(); problem.has_value()) {
        return problem;
      }
    }
    return std::nullopt;
  }

 private:
  // What an action adds to. Sums over microbatches are in their order.
  struct Order {
    std::array<uint32_t, 3> next = {};  // microbatch of forwards, first and second halves
  };

  template <class Find>
  Problem find_in_rows(const Find& find) const {
    for (uint32_t rank = 0; rank < schedule_.rows.size(); ++rank) {
      for (size_t i = 0; i < schedule_.rows[rank].size(); ++i) {
        const std::string text = find(rank, schedule_.rows[rank][i]);
        if (!text.empty()) {
          return problem_at(schedule_, rank, i, text);
        }
      }
    }
    return std::nullopt;
  }

  Problem find_misplaced() {
    if (schedule_.num_microbatches == 0 || schedule_.num_stages == 0) {
      return ScheduleProblem{.text = "the table has no forward"};
    }
    for (uint32_t rank = 0; rank < schedule_.rows.size(); ++rank) {
      if (schedule_.rows[rank].empty()) {
        return ScheduleProblem{.rank = rank,
                               .text = formatted("rank {}: the row has no action", rank)};
      }
    }
    return find_in_rows([this](uint32_t rank, const StageAction& action) -> std::string {
      if (action.stage >= schedule_.num_stages) {
        return formatted("the stage does not exist (the pipeline has {})",
                         counted(schedule_.num_stages, "stage"));
      }
      if (has_microbatch(action.kind) && action.microbatch >= schedule_.num_microbatches) {
        return formatted("the microbatch does not exist (the step has {}, from 0)",
                         microbatches_text(schedule_.num_microbatches));
      }
      if (rank_of_[action.stage] != rank) {
        return formatted("stage {} belongs to rank {}, whose row names it first",
                         action.stage,
                         rank_of_[action.stage]);
      }
      if (pass_ == SchedulePass::kEvaluation && is_compute(action.kind) &&
          action.kind != K::kForward) {
        return "an evaluation has no backward";
      }
      return "";
    });
  }

  // Before anything is allocated for pairs of stages and microbatches: their number may be wrong.
  Problem find_missing_forward() {
    std::vector<uint32_t> counts(schedule_.num_stages, 0);
    for (const std::vector<StageAction>& row : schedule_.rows) {
      for (const StageAction& action : row) {
        counts[action.stage] += action.kind == K::kForward ? 1 : 0;
      }
    }
    for (uint32_t stage = 0; stage < schedule_.num_stages; ++stage) {
      if (counts[stage] < schedule_.num_microbatches) {
        return missing_forward(stage, counts[stage]);
      }
    }
    return std::nullopt;
  }

  Problem missing_forward(uint32_t stage, uint32_t count) const {
    const uint32_t rank = rank_of_[stage];
    if (rank == kNoRank) {
      return ScheduleProblem{.text = formatted("no rank has stage {} (stages 0 to {} are needed)",
                                               stage,
                                               schedule_.num_stages - 1)};
    }
    std::vector<bool> has(schedule_.num_microbatches, false);
    for (const StageAction& action : schedule_.rows[rank]) {
      if (action.stage == stage && action.kind == K::kForward) {
        has[action.microbatch] = true;
      }
    }
    const auto microbatch = std::ranges::find(has, false) - has.begin();
    return missing({stage, K::kForward, static_cast<uint32_t>(microbatch)}, count);
  }

  ScheduleProblem missing(const StageAction& action, uint32_t count) const {
    const uint32_t rank = rank_of_[action.stage];
    return {.rank = rank,
            .text = formatted("rank {}: the {} {} is missing (stage {} has {} of {})",
                              rank,
                              kind_name(action.kind),
                              action_text(action),
                              action.stage,
                              count,
                              schedule_.num_microbatches)};
  }

  uint16_t& kinds_of(uint32_t stage, uint32_t microbatch) {
    return kinds_[size_t{stage} * schedule_.num_microbatches + microbatch];
  }
  bool has(uint32_t stage, uint32_t microbatch, K kind) {
    return (kinds_of(stage, microbatch) >> static_cast<int>(kind) & 1) != 0;
  }

  Problem find_misordered() {
    kinds_.assign(size_t{schedule_.num_stages} * schedule_.num_microbatches, 0);
    orders_.assign(schedule_.num_stages, {});
    return find_in_rows([this](uint32_t /*rank*/, const StageAction& action) -> std::string {
      if (!has_microbatch(action.kind)) {
        return "";
      }
      if (has(action.stage, action.microbatch, action.kind)) {
        return "the action occurs twice";
      }
      std::string text = unmatched(action);
      if (text.empty()) {
        text = out_of_order(action);
      }
      kinds_of(action.stage, action.microbatch) |=
          static_cast<uint16_t>(1U << static_cast<unsigned>(action.kind));
      return text;
    });
  }

  // What must come before the action, or must not.
  std::string unmatched(const StageAction& action) {
    const auto lacks = [&](K kind) { return !has(action.stage, action.microbatch, kind); };
    if (!is_compute(action.kind) || action.kind == K::kForward) {
      return "";
    }
    if (lacks(K::kForward)) {
      return formatted("its forward {} is not before it",
                       action_text({action.stage, K::kForward, action.microbatch}));
    }
    if (action.kind == K::kBackwardWeights && lacks(K::kBackwardInputs)) {
      return formatted("its backward of inputs {} is not before it",
                       action_text({action.stage, K::kBackwardInputs, action.microbatch}));
    }
    if (action.kind == K::kBackward && !lacks(K::kBackwardInputs)) {
      return "a half of this backward is before it";
    }
    if (action.kind == K::kBackwardInputs && !lacks(K::kBackward)) {
      return "the whole backward is before it";
    }
    return "";
  }

  std::string out_of_order(const StageAction& action) {
    const std::array<bool, 3> adds = {action.kind == K::kForward,
                                      gives_input_gradients(action.kind),
                                      gives_weight_gradients(action.kind)};
    Order& order = orders_[action.stage];
    for (size_t i = 0; i < adds.size(); ++i) {
      if (!adds[i]) {
        continue;
      }
      if (action.microbatch != order.next[i]) {
        return formatted("a stage runs microbatches in their order (expected {}, found {})",
                         order.next[i],
                         action.microbatch);
      }
      ++order.next[i];
    }
    return "";
  }

  // Forwards are complete, and what exists is in order.
  Problem find_missing_backward() {
    if (pass_ == SchedulePass::kEvaluation) {
      return std::nullopt;
    }
    for (uint32_t stage = 0; stage < schedule_.num_stages; ++stage) {
      const auto [forwards, inputs, weights] = orders_[stage].next;
      if (inputs < forwards) {
        return missing({stage, K::kBackward, inputs}, inputs);
      }
      if (weights < forwards) {
        return missing({stage, K::kBackwardWeights, weights}, weights);
      }
    }
    return std::nullopt;
  }

  const PipelineSchedule& schedule_;
  const SchedulePass pass_;
  const std::vector<uint32_t> rank_of_;  // by stage
  std::vector<uint16_t> kinds_;          // by stage and microbatch: a bit for each kind
  std::vector<Order> orders_;            // by stage
};

}  // namespace

std::optional<ScheduleProblem> find_row_problem(const PipelineSchedule& schedule,
                                                SchedulePass pass) {
  return RowsCheck(schedule, pass).find();
}

}  // namespace tenon
