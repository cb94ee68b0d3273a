// SPDX-License-Identifier: Apache-2.0
#include "host/train/train_step.hpp"

#include "host/tensor/trace_span.hpp"
#include "host/train/microbatch_losses.hpp"
#include "host/train/non_finite_origin.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <span>
#include <string>
#include <utility>

namespace tenon {

TrainStep::TrainStep(RunServices& run,
                     RunState& state,
                     GradientStatistics& gradients,
                     FiniteCheck& finite_check,
                     LoopEvents& events,
                     HookView& view,
                     StepLog& log,
                     LoopRequests& requests)
    : run_(run),
      state_(state),
      gradients_(gradients),
      finite_check_(finite_check),
      events_(events),
      view_(view),
      log_(log),
      votes_(requests.votes()),
      forward_pass_(run, events),
      update_(run, state, gradients, finite_check, events, view),
      one_(at::scalar_tensor(
          1.0, at::TensorOptions().dtype(at::kDouble).device(run.model.parameters.device()))) {}

CallPoint TrainStep::point(size_t microbatch) const {
  return {state_.step, static_cast<uint32_t>(microbatch), true};
}

void TrainStep::run_microbatches(std::vector<Microbatch>& microbatches,
                                 const std::function<void()>& vote) {
  LoopEvents& events = events_;
  StepValues& step = view_.step();
  step.microbatches = &microbatches;
  step.is_loss_chunked = forward_pass_.is_chunked(point(0));
  gradients_.begin_step();
  update_.begin_step();
  for (size_t i = 0; i < microbatches.size(); ++i) {
    Microbatch& microbatch = microbatches[i];
    microbatch.state = &run_.model.states[i % run_.model.states.size()];
    // If losses are not counted ahead, sums are seeded with 1 and gradients scaled at the end.
    microbatch.seeds.assign(run_.model.losses.size(), one_);
    microbatch.is_by_source = run_.recipe().train.loss_by_source;
  }
  if (run_.plan.loop.counts_ahead && microbatches.size() > 1) {
    count(microbatches);
  }
  run_.model.runner.sums().clear();
  if (microbatches.size() > 1) {
    count_loads(microbatches);
  }
  const auto num_microbatches = static_cast<uint32_t>(microbatches.size());
  for (const StageAction& action : run_.plan.loop.schedule.actions(num_microbatches)) {
    events.event().microbatch = action.microbatch;
    step.batch = &microbatches[action.microbatch].batch;
    step.microbatch = &microbatches[action.microbatch];
    step.state = microbatches[action.microbatch].state;
    if (action.kind == StageActionKind::kForward) {
      run_forward(microbatches, action, vote);
    } else {
      run_losses_and_backward(microbatches, action);
    }
  }
  run_.model.finish_messages();
  step.batch = nullptr;
  step.microbatch = nullptr;
  step.state = nullptr;
  if (run_.model.tables != nullptr) {
    run_.model.tables->send_gradients();  // in transit while the step is finished
  }
  events.event().microbatch = 0;
  state_.samples += totals_.samples;
  state_.tokens += totals_.tokens;
  late_scale_ = run_.plan.loop.counts_ahead ? at::Tensor() : late_scale(microbatches);
}

// Events of a microbatch fire once: those before the forward at the forward of this rank's first
// stage, and the others when the backward of its last stage starts, and that of its first one ends.
void TrainStep::run_forward(std::vector<Microbatch>& microbatches,
                            const StageAction& action,
                            const std::function<void()>& vote) {
  const StepSchedule& schedule = run_.plan.loop.schedule;
  if (action.stage == schedule.first_stage()) {
    events_.fire(TENON_EVENT_AFTER_DATA);
    if (action.microbatch == 0) {
      // A single microbatch is counted after hooks, which may change it.
      if (run_.plan.loop.counts_ahead && microbatches.size() == 1) {
        count(microbatches);
      }
      vote();
      start_agreement(microbatches);
    }
    events_.fire(TENON_EVENT_BEFORE_FORWARD);
  }
  forward_pass_.run_stage(microbatches[action.microbatch], point(action.microbatch), action.stage);
}

void TrainStep::run_losses_and_backward(std::vector<Microbatch>& microbatches,
                                        const StageAction& action) {
  const size_t i = action.microbatch;
  if (action.stage == run_.plan.loop.schedule.last_stage()) {
    events_.fire(TENON_EVENT_AFTER_FORWARD);
    start_losses(microbatches, i);
    run_losses(microbatches[i], point(i));
    events_.fire(TENON_EVENT_BEFORE_BACKWARD);
  }
  run_backward(microbatches[i], action, i + 1 == microbatches.size());
  if (action.stage == run_.plan.loop.schedule.first_stage()) {
    events_.fire(TENON_EVENT_AFTER_BACKWARD);
  }
}

// Sets what the gradients of microbatch `i` are multiplied by.
void TrainStep::start_losses(std::vector<Microbatch>& microbatches, size_t i) {
  Microbatch& microbatch = microbatches[i];
  if (microbatches.size() == 1 && run_.model.runner.sums().has_balances()) {
    add_loads(run_.model.runner.sums(), microbatch.state->aux_losses());
    sum_loads();
  }
  if (i == 0) {
    sync_totals(microbatches);
    if (run_.plan.loop.counts_ahead) {
      seed(microbatches);
    }
  }
  if (run_.model.loss_scale.has_value()) {
    for (at::Tensor& seed : microbatch.seeds) {
      seed = seed * run_.model.loss_scale->scale();
    }
  }
}

// Non-finite losses of a skipped step must not enter metrics.
void TrainStep::run_losses(Microbatch& microbatch, const CallPoint& point) {
  FiniteCheck& check = finite_check_;
  const bool counts_anyway = check.guard().is_exempt();
  forward_pass_.run_losses(microbatch, point, [&] {
    bool is_finite = true;
    for (size_t l = 0; l < microbatch.sums.size(); ++l) {
      is_finite = gradients_.add_loss(microbatch.sums[l], microbatch.counts[l]) && is_finite;
    }
    if (are_all_finite(is_finite) || counts_anyway) {
      run_.model.metrics.train(*microbatch.state, microbatch.batch, point);
    }
  });
  if (microbatch.batch.samples == 0) {
    return;
  }
  for (const AuxLoss& aux : microbatch.state->aux_losses()) {
    const auto [sum, count] = sum_and_count(run_.model.runner.sums(), aux);
    if (gradients_.add_loss(sum, count) || counts_anyway) {
      run_.report.metrics.add_tensor("aux/" + aux.name, sum, count);
    }
  }
}

// Metrics see whole sequences: the ranks that divide them decide together.
bool TrainStep::are_all_finite(bool is_finite) {
  SequenceGroup* const sequences = run_.model.sequences.get();
  if (sequences == nullptr || !run_.model.metrics.has_training()) {
    return is_finite;
  }
  int64_t num_bad = is_finite ? 0 : 1;
  sequences->ranks().all_reduce(std::span(&num_bad, 1), Reduce::kSum, "finite losses");
  return num_bad == 0;
}

void TrainStep::run_backward(Microbatch& microbatch, const StageAction& action, bool ends_step) {
  const std::optional<LossScale>& scale = run_.model.loss_scale;
  MicrobatchLosses losses(run_.model.losses, microbatch, point(action.microbatch));
  run_.model.runner.backward(
      *microbatch.state,
      &losses,
      {microbatch.aux_scale, scale.has_value() ? scale->scale() : at::Tensor()},
      ends_step,
      action.stage);
}

void TrainStep::update(const std::vector<Microbatch>& microbatches, bool is_wanted) {
  FiniteCheck& check = finite_check_;
  if (events_.reads_step_loss()) {
    view_.step().loss = loss_of_all_ranks(microbatches);
  }
  update_.run(
      is_wanted,
      late_scale_,
      [&] { return find_origin(microbatches); },
      [&] {
        if (check.is_skipped()) {  // means exclude skipped steps; buffers are restored
          return;
        }
        end_buffers();
        log_.add_losses(microbatches, check.bad_losses());
        if (run_.recipe().train.clip_grad_norm.has_value()) {
          check.record_norm(run_.report.metrics);
        }
      });
}

// ---- sums over the step, and buffers ----

// Loads of a step must be known before its first backward, so its forwards run once more.
void TrainStep::count_loads(const std::vector<Microbatch>& microbatches) {
  if (!run_.model.runner.sums().has_balances()) {
    return;
  }
  const TraceSpan span("count loads of experts");
  for (size_t i = 0; i < microbatches.size(); ++i) {
    run_.model.runner.count_loads(run_.model.state(), microbatches[i].batch, point(i));
  }
  sum_loads();
}

void TrainStep::sum_loads() {
  run_.model.sharded.sum_over_ranks(run_.model.runner.sums().load_sums(), "loads of experts");
}

// After a step, all ranks have the same buffers.
void TrainStep::end_buffers() {
  const TraceSpan span("end buffers");
  run_.model.runner.end_step();
  run_.model.sharded.synchronise_buffers();
}

// ---- counting and normalizing ----

void TrainStep::count(std::vector<Microbatch>& microbatches) {
  for (size_t i = 0; i < microbatches.size(); ++i) {
    Microbatch& microbatch = microbatches[i];
    if (microbatch.batch.samples > 0) {
      SequenceGroup* const sequences = run_.model.sequences.get();
      microbatch.counts = run_.model.losses.count(microbatch.batch, point(i), sequences);
      if (sequences != nullptr && run_.recipe().train.normalize == Normalize::kMicrobatch) {
        for (const at::Tensor& count : microbatch.counts) {
          microbatch.whole_counts.push_back(
              sequences->sum(count.reshape({1}), "counts of losses").reshape({}));
        }
      }
    } else {
      microbatch.counts.assign(run_.model.losses.size(), at::zeros({}, at::kDouble));
    }
  }
}

// Returns the count of a loss on this rank; 0 if nothing is counted.
at::Tensor TrainStep::own_total(const std::vector<Microbatch>& microbatches, size_t loss) const {
  const at::Tensor total = count_of(microbatches, loss);
  return total.defined() ? total : at::scalar_tensor(0.0, at::kDouble);
}

// Numbers that are summed over ranks are exchanged with the votes.
void TrainStep::start_agreement(const std::vector<Microbatch>& microbatches) {
  totals_ = {};
  for (const Microbatch& microbatch : microbatches) {
    if (!run_.role().counts_samples()) {
      break;  // another rank counts the same samples
    }
    totals_.samples += microbatch.batch.dataset_samples();
    totals_.tokens += microbatch.batch.tokens;
    totals_.num_parts += microbatch.batch.samples > 0 ? 1 : 0;
    totals_.rows += static_cast<double>(microbatch.batch.samples);
  }
  if (run_.is_alone()) {
    votes_.start();
    return;
  }
  std::vector<double> numbers = {static_cast<double>(totals_.samples),
                                 static_cast<double>(totals_.tokens),
                                 totals_.num_parts,
                                 totals_.rows};
  for (size_t l = 0; run_.plan.loop.counts_ahead && l < run_.model.losses.size(); ++l) {
    // Other tensor ranks have the same count.
    numbers.push_back(run_.role().counts_tokens() ? own_total(microbatches, l).item<double>() : 0);
  }
  votes_.start(numbers);
}

// Called before the first loss of a step.
void TrainStep::sync_totals(const std::vector<Microbatch>& microbatches) {
  if (run_.is_alone()) {
    for (size_t l = 0; run_.plan.loop.counts_ahead && l < run_.model.losses.size(); ++l) {
      totals_.counts.push_back(own_total(microbatches, l));
    }
    return;
  }
  const std::span<const double> sums = votes_.sums();
  totals_.samples = static_cast<int64_t>(sums[0]);
  totals_.tokens = static_cast<int64_t>(sums[1]);
  totals_.num_parts = sums[2];
  totals_.rows = sums[3];
  for (const double count : sums.subspan(4)) {
    totals_.counts.push_back(at::full({}, count, one_.options()));  // a copy would wait
  }
}

// "items": each sum is divided by the number of items of the whole step, and auxiliary losses weigh
// by samples. "microbatch": each microbatch has the same weight.
void TrainStep::seed(std::vector<Microbatch>& microbatches) {
  const LossSet& losses = run_.model.losses;
  for (size_t l = 0; l < losses.size(); ++l) {
    for (Microbatch& microbatch : microbatches) {
      microbatch.seeds[l] =
          run_.recipe().train.normalize == Normalize::kItems
              ? seed_of(losses.weight(l), totals_.counts[l])
              : seed_of(losses.weight(l) / totals_.num_parts,
                        microbatch.whole_counts.empty() ? microbatch.counts[l]
                                                        : microbatch.whole_counts[l]);
    }
  }
  for (Microbatch& microbatch : microbatches) {
    microbatch.aux_scale = run_.recipe().train.normalize == Normalize::kItems
                               ? static_cast<double>(microbatch.batch.samples) / totals_.rows
                               : 1.0 / totals_.num_parts;
  }
}

// Returns weight / count over all ranks, if counts are known only after the last forward. There is
// exactly one loss then.
at::Tensor TrainStep::late_scale(const std::vector<Microbatch>& microbatches) {
  at::Tensor total = own_total(microbatches, 0);
  if (!run_.is_alone()) {
    double value = total.item<double>();
    run_.ranks.groups.sums().all_reduce(std::span(&value, 1), Reduce::kSum, "counts of losses");
    total = at::scalar_tensor(value, at::kDouble);
  }
  return seed_of(run_.model.losses.weight(0), total);
}

// Waits for the device. Returns none if the loss is non-finite, or nothing is counted.
std::optional<double> TrainStep::loss_of_all_ranks(const std::vector<Microbatch>& microbatches) {
  const size_t num_losses = run_.model.losses.size();
  std::vector<double> totals(2 * num_losses);  // sums, then counts
  for (const Microbatch& microbatch : microbatches) {
    for (size_t l = 0; l < num_losses && !microbatch.sums.empty(); ++l) {
      totals[l] += microbatch.sums[l].item<double>();
      totals[num_losses + l] += microbatch.counts[l].item<double>();
    }
  }
  if (!run_.is_alone()) {
    run_.ranks.groups.sums().all_reduce(totals, Reduce::kSum, "loss of a step");
  }
  double loss = 0;
  for (size_t l = 0; l < num_losses; ++l) {
    loss += run_.model.losses.weight(l) * totals[l] / totals[num_losses + l];
  }
  return std::isfinite(loss) ? std::optional(loss) : std::nullopt;
}

// Called before the step changes parameters, so that its values can be recomputed. Blocks read the
// buffers that its first microbatch read.
NonFiniteOrigin TrainStep::find_origin(const std::vector<Microbatch>& microbatches) {
  const EarlierBuffers earlier(run_.model.parameters);
  std::vector<PastMicrobatch> past;
  past.reserve(microbatches.size());
  for (const Microbatch& microbatch : microbatches) {
    past.push_back({&microbatch.batch, &microbatch.sums, &microbatch.counts});
  }
  NonFiniteOrigin origin = find_non_finite_origin(
      run_.model.runner,
      run_.model.state(),
      run_.model.parameters,
      run_.model.losses,
      past,
      state_.step,
      run_.is_alone() ? OriginSearch::kUntilFound : OriginSearch::kInStepWithRanks);
  run_.model.finish_messages();
  const TableSet* const tables = run_.model.tables.get();
  const std::string of_tables = tables != nullptr ? tables->non_finite() : "";
  if (!of_tables.empty() && origin.distance > OriginDistance::kGradient) {
    origin = {OriginDistance::kGradient, of_tables + " is non-finite"};
  }
  return origin;
}

}  // namespace tenon
