// SPDX-License-Identifier: Apache-2.0
//
// One training step on its microbatches: counts and normalizes losses over all microbatches of all
// ranks, runs forward and backward of each microbatch in the order of the schedule, and updates the
// parameters.
// Invariant: gradients equal those of one batch of all samples, up to rounding, for any number of
// microbatches and ranks.
// Threads: the train thread; every rank calls the same functions.
#pragma once

#include "host/distributed/collectives/agreement.hpp"
#include "host/train/forward_pass.hpp"
#include "host/train/microbatch.hpp"
#include "host/train/parameter_update.hpp"
#include "host/train/step_log.hpp"

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

namespace tenon {

class TrainStep {
 public:
  // All are borrowed.
  TrainStep(RunServices& run,
            RunState& state,
            GradientStatistics& gradients,
            FiniteCheck& finite_check,
            LoopEvents& events,
            HookView& view,
            StepLog& log,
            LoopRequests& requests);

  // The same forward pass, for evaluations.
  ForwardPass& forward_pass() { return forward_pass_; }

  // Runs forward and backward of all microbatches. `vote` adds this rank's votes, which are
  // exchanged during the first forward.
  void run_microbatches(std::vector<Microbatch>& microbatches, const std::function<void()>& vote);
  // Applies the update, unless it is not wanted or is skipped as non-finite. Adds the losses of the
  // step to the log.
  void update(const std::vector<Microbatch>& microbatches, bool is_wanted);

 private:
  // Totals of one step, over all its microbatches and all ranks.
  struct Totals {
    int64_t samples = 0;
    int64_t tokens = 0;
    double num_parts = 0;            // microbatches with samples
    double rows = 0;                 // of all microbatches, along B
    std::vector<at::Tensor> counts;  // by loss, [] f64; empty unless losses are counted ahead
  };

  CallPoint point(size_t microbatch) const;
  at::Tensor own_total(const std::vector<Microbatch>& microbatches, size_t loss) const;
  void count(std::vector<Microbatch>& microbatches);
  void start_agreement(const std::vector<Microbatch>& microbatches);
  void sync_totals(const std::vector<Microbatch>& microbatches);
  void seed(std::vector<Microbatch>& microbatches);
  void count_loads(const std::vector<Microbatch>& microbatches);
  void sum_loads();
  void end_buffers();
  void run_forward(std::vector<Microbatch>& microbatches,
                   const StageAction& action,
                   const std::function<void()>& vote);
  void run_losses_and_backward(std::vector<Microbatch>& microbatches, const StageAction& action);
  void start_losses(std::vector<Microbatch>& microbatches, size_t i);
  void run_losses(Microbatch& microbatch, const CallPoint& point);
  bool are_all_finite(bool is_finite);
  void run_backward(Microbatch& microbatch, const StageAction& action, bool ends_step);
  std::optional<double> loss_of_all_ranks(const std::vector<Microbatch>& microbatches);
  at::Tensor late_scale(const std::vector<Microbatch>& microbatches);
  NonFiniteOrigin find_origin(const std::vector<Microbatch>& microbatches);

  RunServices& run_;
  RunState& state_;
  GradientStatistics& gradients_;
  FiniteCheck& finite_check_;
  LoopEvents& events_;
  HookView& view_;
  StepLog& log_;
  Agreement& votes_;
  ForwardPass forward_pass_;
  ParameterUpdate update_;
  Totals totals_;
  at::Tensor late_scale_;  // of all gradients; undefined if losses are counted ahead
  at::Tensor one_;         // 1: [] f64, on the run's device, since a copy from the CPU would wait
};

}  // namespace tenon
