// SPDX-License-Identifier: Apache-2.0
//
// The view of a run that hooks get; it also receives their requests. The loop supplies its content.
// It changes nothing in the run except the learning rate factor and metrics.
// Threads: the train thread, while an event is being fired.
#pragma once

#include "host/distributed/collectives/rank_groups.hpp"
#include "host/hook/run_view.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/model/microbatch_state.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/train/finite_check.hpp"
#include "host/train/learning_rate.hpp"
#include "host/train/loop_requests.hpp"
#include "host/train/microbatch.hpp"
#include "host/train/step_log.hpp"
#include "host/train/text_source.hpp"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Values of the step under way. Pointers are borrowed.
struct StepValues {
  Batch* batch = nullptr;                                 // null outside of a microbatch
  Microbatch* microbatch = nullptr;                       // of training; null outside of one
  const MicrobatchState* state = nullptr;                 // of the model; null outside of one
  const std::vector<Microbatch>* microbatches = nullptr;  // null outside of a step
  std::optional<double> lr_factor;                        // once the update is applied or skipped
  std::optional<double> loss;    // over all ranks; only if a hook reads it, and it is finite
  bool is_loss_chunked = false;  // gradients of the outputs are computed with the loss
  bool is_applied = true;
  bool are_gradients_final = false;
};

// Whole parameters and gradients, by group and entry, if this rank has only a shard of them. A
// group without gradients has no entries of them.
struct WholeGroups {
  std::vector<std::vector<at::Tensor>> values;
  std::vector<std::vector<at::Tensor>> grads;
};

class HookView final : public RunView {
 public:
  // All are borrowed. The time that hooks generate texts between steps is a pause of `log`.
  HookView(RunServices& run,
           const RunState& state,
           const GradientStatistics& gradients,
           const FiniteCheck& finite_check,
           LoopRequests& requests,
           StepLog& log)
      : run_(run),
        state_(state),
        gradients_(gradients),
        finite_check_(finite_check),
        requests_(requests),
        log_(log),
        rate_(run.plan.observers.schedule(), run.plan.loop.total_steps) {}

  // ---- for the loop ----

  StepValues& step() { return step_; }
  void show_whole(WholeGroups groups) { whole_ = std::move(groups); }
  const WholeGroups& whole() const { return whole_; }
  LearningRate& learning_rate() { return rate_; }
  // Call it when the run has failed: other ranks may join no collective from now on.
  void note_failure() { has_failed_ = true; }
  // Returns the learning rate factor of the step under way.
  double lr_factor() const { return rate_.factor(state_.step); }

  // ---- for hooks ----

  void request(uint32_t requests, const std::string& reason) override;
  std::optional<double> metric(std::string_view name) const override;
  const at::Tensor* scalar(std::string_view name) override;
  void add_metric(const std::string& name, double value) override;
  at::Tensor* field(std::string_view name) override;
  void set_lr_factor(double factor) override;
  size_t num_parameters() const override;
  ParameterView parameter(size_t i) override;
  const std::string& run_dir() const override;
  size_t num_lr_groups() const override;
  LrGroupView lr_group(size_t i) override;
  std::optional<double> lr_group_option(size_t i, const std::string& pointer) const override;
  void roll_back(uint64_t first_bad_step, const std::string& reason) override;
  const at::Tensor* output(std::string_view name) override;
  void set_field(const std::string& name, const at::Tensor& tensor) override;
  void scale_loss(double factor) override;
  std::optional<double> step_loss() const override { return step_.loss; }
  void all_reduce(std::span<double> values, bool is_sum) override;
  void check_text(const TextRequest& request) override;
  WrittenText generate_text(const TextRequest& request) override;

 private:
  RunServices& run_;
  const RunState& state_;
  const GradientStatistics& gradients_;
  const FiniteCheck& finite_check_;
  LoopRequests& requests_;
  StepLog& log_;
  LearningRate rate_;
  StepValues step_;
  WholeGroups whole_;
  std::function<void(std::chrono::steady_clock::duration)> add_pause_;  // may be empty
  bool has_failed_ = false;
  // Tensors that scalar() and parameter() return pointers to.
  at::Tensor loss_;
  at::Tensor grad_norm_;
  at::Tensor applied_;
  std::vector<at::Tensor> parameter_values_;
};

}  // namespace tenon
