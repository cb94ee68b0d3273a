// SPDX-License-Identifier: Apache-2.0
//
// One step of training on its microbatches: losses are counted and normalized over all microbatches
// of all ranks, each microbatch goes forward and backward, and the parameters are updated.
// Invariant: gradients are those of one batch of all samples, to rounding, however many
// microbatches and ranks share them. Threads: the train thread; every rank calls the same
// functions.
#pragma once

#include "host/distributed/collectives/agreement.hpp"
#include "host/train/forward_pass.hpp"
#include "host/train/microbatch.hpp"
#include "host/train/parameter_update.hpp"
#include "host/train/step_log.hpp"

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace tenon {

class TrainStep {
 public:
  // All are borrowed.
  struct Parts {
    ParameterUpdate::Parts update;
    ModelRunner& model;
    LossSet& losses;
    MetricSet& metric_set;
    MetricBook& metrics;
    StepLog& log;
    Agreement& votes;
    bool counts_ahead = true;  // losses are counted before the first backward of a step
  };
  explicit TrainStep(Parts parts);

  // The same forward for evaluations.
  ForwardPass& forward_pass() { return forward_pass_; }

  // Forward and backward of all microbatches. `vote` adds what this rank votes for; the votes
  // travel beside the first forward.
  void run_microbatches(std::vector<Microbatch>& microbatches, const std::function<void()>& vote);
  // The update, or nothing if it is not wanted or not finite; and the step's losses to the log.
  void update(const std::vector<Microbatch>& microbatches, bool is_wanted);

 private:
  // Of one step, over all its microbatches and all ranks.
  struct Totals {
    int64_t samples = 0;
    int64_t tokens = 0;
    double num_parts = 0;            // microbatches with samples
    std::vector<at::Tensor> counts;  // by loss, [] f64; empty if they come late
  };

  bool is_alone() const { return parts_.update.collective.world_size() == 1; }
  CallPlace place(size_t microbatch) const;
  at::Tensor own_total(const std::vector<Microbatch>& microbatches, size_t loss) const;
  void count(std::vector<Microbatch>& microbatches);
  void start_agreement(const std::vector<Microbatch>& microbatches);
  void sync_totals(const std::vector<Microbatch>& microbatches);
  void seed(std::vector<Microbatch>& microbatches);
  void run_microbatch(std::vector<Microbatch>& microbatches, size_t i);
  void run_losses(Microbatch& microbatch, const CallPlace& place);
  void run_backward(const Microbatch& microbatch, const CallPlace& place, bool ends_step);
  at::Tensor late_scale(const std::vector<Microbatch>& microbatches);
  NonFiniteOrigin find_origin(const std::vector<Microbatch>& microbatches);

  Parts parts_;
  ForwardPass forward_pass_;
  ParameterUpdate update_;
  Totals totals_;
  at::Tensor late_scale_;  // of all gradients; undefined if losses are counted ahead
  at::Tensor one_;         // [] f64, on the run's device: a copy from the CPU would wait
};

}  // namespace tenon
