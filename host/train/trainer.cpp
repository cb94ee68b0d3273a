// SPDX-License-Identifier: Apache-2.0
//
// Read from Trainer::run downwards.
#include "host/train/trainer.hpp"

#include <tenon/hook.h>
#include <tenon/model.h>

#include "host/data/batch_builder.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/metrics/metrics_service.hpp"
#include "host/optim/clip.hpp"
#include "host/tensor/trace_span.hpp"
#include "host/train/memory_report.hpp"
#include "host/train/model_bank.hpp"
#include "host/train/non_finite_origin.hpp"
#include "host/train/optimizer_groups.hpp"
#include "host/train/run_failure.hpp"
#include "host/train/same_data.hpp"
#include "host/train/tiled_loss.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <span>
#include <unistd.h>
#include <utility>

namespace tenon {

struct Trainer::Microbatch {
  Batch batch;
  std::vector<at::Tensor> counts;  // by loss, [] f64
  std::vector<at::Tensor> sums;    // by loss
  std::vector<at::Tensor> seeds;   // by loss: what its sum is multiplied with
  double aux_scale = 1;
};

namespace {

// weight / total, and 0 where there is nothing to divide by.
at::Tensor seed_of(double weight, const at::Tensor& total) {
  if (total.is_cpu()) {
    const double count = total.item<double>();
    return at::scalar_tensor(count != 0 ? weight / count : 0.0, at::kDouble);
  }
  return at::where(total != 0, weight / total, at::zeros_like(total));
}

// "data/web/samples".
std::string mix_figure(const MixPartInfo& part, const char* what) {
  return "data/" + part.name + "/" + what;
}

}  // namespace

LoopPlan plan_loop(const Recipe& recipe,
                   const LossSet& losses,
                   const std::vector<HookProxy>& hooks,
                   const LrSchedulerProxy* lr_scheduler,
                   uint32_t world_size) {
  check_writers(hooks);
  check_ranks(hooks, world_size);
  LoopPlan plan;
  plan.microbatches_per_step = microbatches_per_step(recipe, world_size);
  // A count that is taken before a hook changes the batch would be wrong; with one microbatch it is
  // taken after.
  const bool batch_is_written = any_writes(hooks, TENON_EVENT_AFTER_DATA, TENON_TOUCH_BATCH);
  plan.counts_ahead =
      losses.count_from_batch() && (plan.microbatches_per_step == 1 || !batch_is_written);
  if (!plan.counts_ahead && losses.size() > 1) {
    throw Error("loss.late_count",
                "several losses are each divided by a count of their own, which must be known "
                "before the first "
                "backward; here one of them counts after the forward, or a hook changes batches "
                "while gradients "
                "are accumulated. Use one loss, or no accumulation");
  }
  if (!plan.counts_ahead && recipe.train.normalize == Normalize::kMicrobatch) {
    throw Error(
        "loss.late_count",
        "\"normalize\": \"microbatch\" divides each microbatch by its own count, which must be "
        "known before its backward; this loss counts after the forward, or a hook changes "
        "batches while gradients are accumulated");
  }
  if (recipe.train.total_steps.has_value()) {
    plan.total_steps = static_cast<uint64_t>(*recipe.train.total_steps);
  } else if (recipe.train.steps.has_value()) {
    plan.total_steps = static_cast<uint64_t>(*recipe.train.steps);
  } else if (lr_scheduler != nullptr && lr_scheduler->needs_total()) {
    throw Error("recipe.no_total",
                "/lr_scheduler: the schedule needs the length of the run in steps, and the horizon "
                "is not in steps; "
                "give /train/total_steps");
  }
  if (lr_scheduler != nullptr) {
    lr_scheduler->factor(0, plan.total_steps);  // whether its options go together, and with the run
  }
  return plan;
}

Trainer::Trainer(TrainerParts parts, std::vector<HookProxy> hooks)
    : parts_(std::move(parts)),
      train_(parts_.recipe.train),
      eval_(parts_.recipe.eval),
      agreement_(parts_.collective),
      turns_(parts_.collective),
      guard_(train_.non_finite),
      hooks_(std::move(hooks), parts_.collective.rank(), *this) {
  for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
    if (any_writes(hooks_.hooks(), event, TENON_TOUCH_PARAMETERS)) {
      parameter_writes_ |= TENON_EVENT_BIT(event);
    }
    const auto sees_all = [event](const HookProxy& hook) {
      return hook.info().full_parameters && (hook.info().events & TENON_EVENT_BIT(event)) != 0;
    };
    if (!parts_.flow.is_idle() && std::ranges::any_of(hooks_.hooks(), sees_all)) {
      full_parameters_ |= TENON_EVENT_BIT(event);
    }
  }
  are_gradients_rewritten_ =
      any_writes(hooks_.hooks(), TENON_EVENT_BEFORE_OPTIMIZER_STEP, TENON_TOUCH_GRADIENTS);
  is_on_cpu_ = parts_.gpu == nullptr;
  const auto& buffers = parts_.parameters.graph().buffers;
  has_state_buffers_ = std::ranges::any_of(
      buffers, [](const ModelBuffer& buffer) { return buffer.kind == TENON_BUFFER_STATE; });
  const bool is_plain = parts_.losses.size() == 1 && parts_.losses.weight(0) == 1;
  for (size_t l = 0; l < parts_.losses.size(); ++l) {
    loss_figures_.push_back(is_plain ? "loss" : "loss/" + parts_.losses.name(l));
  }
}

// ---- the run ----

Outcome Trainer::run() {
  start_ = std::chrono::steady_clock::now();
  logged_at_ = start_;
  const MetricsInUse in_use(parts_.metrics);
  std::optional<Error> failure;
  try {
    train();
  } catch (const std::exception& error) {
    failure = run_failure(error);
    if (failure->id() == "run.out_of_memory") {
      failure = Error(failure->id(), failure->message() + ". " + memory_report());
    }
  }
  if (failure.has_value()) {
    parts_.published.set(state_);
    const FailedEnd end = parts_.on_failure(*failure);
    if (end.is_told) {
      log_to_file(end.error.what());
    } else {
      log_error(end.error.what());
    }
    outcome_.code = end.code;
    outcome_.reason = end.error.what();
    outcome_.error_id = end.error.id();
    parts_.published.set_event(TENON_EVENT_ON_ERROR);
    hooks_.fire_in_reverse(TENON_EVENT_ON_ERROR, outcome_.reason);
  }
  if (parts_.profile != nullptr) {
    hooks_.close_spans();
    parts_.profile->finish_run(state_.step);
  }
  if (parts_.checkpoints != nullptr) {
    if (failure.has_value() && is_alone()) {  // what was begun is sound
      finish_all_saves();
    }
    outcome_.saves = parts_.checkpoints->count();
    outcome_.exports = parts_.checkpoints->export_count();
  }
  outcome_.state = state_;
  outcome_.windows.skipped += static_cast<uint64_t>(parts_.train_data.num_skipped());
  outcome_.windows.repeated += static_cast<uint64_t>(parts_.train_data.num_repeated());
  outcome_.non_finite = guard_.count();
  outcome_.seconds = seconds_so_far();
  hooks_.event().is_train = 1;
  parts_.published.set_event(TENON_EVENT_END);
  hooks_.fire_in_reverse(TENON_EVENT_END, outcome_.reason);
  parts_.train_data.close_window();
  parts_.sinks.flush();
  outcome_.lost_records = parts_.sinks.num_lost();
  std::vector<std::string> reported = {"loss", "lr", "grad_norm"};
  for (const std::string& name : parts_.metric_set.training_figures()) {
    reported.push_back(name);
  }
  for (const MixPartInfo& part : parts_.train_data.source().parts()) {
    reported.push_back(mix_figure(part, "samples"));
    reported.push_back(mix_figure(part, "epochs"));
  }
  for (const std::string& name : reported) {
    if (const auto value = parts_.metrics.last(name)) {
      outcome_.last_metrics[name] = *value;
    }
  }
  return outcome_;
}

void Trainer::train() {
  fire(TENON_EVENT_BEFORE_INIT);
  parts_.initialise();
  parts_.flow.synchronise();
  fire(TENON_EVENT_AFTER_INIT);
  fire(TENON_EVENT_START);
  start_ = std::chrono::steady_clock::now();
  logged_at_ = start_;
  settle_wishes();
  const bool is_loaded = parts_.start_from != nullptr || parts_.saved != nullptr;
  if (parts_.start_from != nullptr) {
    load(*parts_.start_from);
  } else if (parts_.saved != nullptr) {
    load_saved();
  }
  if (is_loaded || load_from_bank()) {
    fire(TENON_EVENT_AFTER_LOAD);
    settle_wishes();
  }
  if (is_loaded && parts_.bank != nullptr && outcome_.loaded_from.empty()) {
    parts_.progress.say("the run goes on: nothing is loaded anew");
  }
  if (!parts_.is_eval_only && !parts_.is_seed_only) {
    make_up_exports();
    make_up_evaluations();
  }
  if (parts_.is_eval_only) {
    if (!is_over()) {
      evaluate();
    }
    if (!is_over()) {
      evaluate_test_sets();
    }
    end_with(ExitCode::kDone, "evaluated the initial parameters");
    return;
  }
  if (parts_.is_seed_only) {
    save_seed();
    return;
  }
  if (eval_.at_start && state_.step == 0 && !is_over()) {
    evaluate();
  }
  if (parts_.train_data.source().info().has_windows) {
    fire(TENON_EVENT_WINDOW_MODE);
  }
  if (!is_loaded) {
    rest(RestPoint::kStart);
  }
  while (!is_over()) {
    run_epoch();
  }
  if (state_.step != logged_step_) {
    log_step();
    if (guard_.failure().has_value()) {
      throw Error(*guard_.failure());
    }
  }
  // Before what may take long: whoever ends the run there loses nothing.
  finish_saves();
  if (outcome_.code == ExitCode::kDone) {
    restore_best();
    export_at_end();
    if (eval_.at_end) {
      evaluate();
    }
  }
  if (outcome_.code == ExitCode::kDone) {
    evaluate_test_sets();
  }
  finish_saves();
}

void Trainer::run_epoch() {
  const bool goes_on = std::exchange(goes_on_with_epoch_, false);
  if (!goes_on) {
    epoch_step_ = state_.step;
  }
  hooks_.event().epoch = state_.epochs;
  fire(TENON_EVENT_BEFORE_EPOCH);
  settle_wishes();
  if (!goes_on) {
    reload_where_due(ReloadPoint::kEpoch, state_.epochs);
    begin_epoch();
  } else if (!goes_on_with_window_) {  // between windows they act at once
    vote_loaded_wishes();
    settle_wishes();
  }
  bool is_finished = false;
  while (!is_over() && !is_finished) {
    const NextWindow next = goes_on_with_window_ ? NextWindow::kOpen : open_next_windows();
    if (next == NextWindow::kOpen) {
      hooks_.event().window = static_cast<uint64_t>(parts_.train_data.opened_number());
      run_window();
    } else if (next == NextWindow::kEnd) {
      is_finished = true;
    } else {
      end_waiting();
    }
  }
  if (is_over() && !is_finished) {
    rest_at_end();  // where a hook, a signal or the clock has ended it between steps
  }
  hooks_.event().window = 0;
  hooks_.event().window_label = "";
  parts_.train_data.close_window();
  if (is_finished) {
    note_end_of_epoch();
    if (!goes_on && state_.step == epoch_step_) {
      const int64_t num_skipped = parts_.train_data.num_skipped();
      throw Error("data.empty",
                  parts_.train_data.source().name() + " gave no batch in a whole epoch" +
                      (num_skipped > 0 ? "; " + std::to_string(num_skipped) +
                                             " of its windows were left out, as asked"
                                       : ""));
    }
    ++state_.epochs;
    check_horizon();
    if (eval_.every_epochs > 0 && state_.epochs % static_cast<uint64_t>(eval_.every_epochs) == 0) {
      evaluate();
    }
    rest(RestPoint::kEpoch);
  }
  fire(TENON_EVENT_AFTER_EPOCH);
  settle_wishes();
  if (is_over() && is_finished) {
    rest_at_end();
  }
}

void Trainer::begin_epoch() {
  DataStream& data = parts_.train_data;
  outcome_.windows.skipped += static_cast<uint64_t>(data.num_skipped());
  outcome_.windows.repeated += static_cast<uint64_t>(data.num_repeated());
  data.begin_epoch(state_.epochs);
  for (const EvalSet& set : parts_.eval_sets) {
    if (has_paired_windows(set)) {
      set.data->begin_epoch(state_.epochs);
    }
  }
}

NextWindow Trainer::open_next_window() {
  const auto asked = std::chrono::steady_clock::now();
  const NextWindow next = next_window_together(
      parts_.train_data, parts_.collective, [this] { return is_interrupted() || is_time_up(); });
  data_wait_ += std::chrono::steady_clock::now() - asked;
  return next;
}

// The same with a window of each evaluation set that goes along: where one has no more, the epoch
// ends as where the training set has none.
NextWindow Trainer::open_next_windows() {
  DataStream& data = parts_.train_data;
  NextWindow next = open_next_window();
  for (const EvalSet& set : parts_.eval_sets) {
    if (next != NextWindow::kOpen || !has_paired_windows(set)) {
      continue;
    }
    next = next_window_together(
        *set.data, parts_.collective, [this] { return is_interrupted() || is_time_up(); });
    if (next == NextWindow::kEnd && parts_.collective.rank() == 0) {
      log_warning("the epoch ends before window " + data.window_label() + ", which is left out: " +
                  set.data->source().name() + " has no window to evaluate on beside it");
    }
  }
  if (next != NextWindow::kOpen && data.has_window()) {
    data.take_back_window();
  }
  return next;
}

// A signal, the kill switch or the clock came before the next window did.
void Trainer::end_waiting() {
  if (any_rank(is_interrupted())) {
    is_cut_by_signal_ = true;
    end_with(ExitCode::kStopped, interruption_text());
  } else {
    end_in_time();
  }
}

void Trainer::run_window() {
  DataStream& data = parts_.train_data;
  window_label_ = data.window_label();  // it is told after the window is closed, too
  hooks_.event().window_label = window_label_.c_str();
  outcome_.windows.last = window_label_;
  const bool goes_on = std::exchange(goes_on_with_window_, false);
  if (!goes_on) {
    reload_where_due(ReloadPoint::kWindow, state_.windows);
  }
  if (!goes_on || due_.next_window || due_.with_window) {
    if (eval_.next_window && !is_over() && (!goes_on || due_.next_window)) {
      evaluate_next_window();
    }
    if (eval_.with_window == WithWindow::kBefore && (!goes_on || due_.with_window)) {
      due_.with_window = true;
      if (!is_over()) {
        evaluate_with_window();
      }
    }
    parts_.metric_set.begin_window(CallPlace{state_.step, 0, true});
    steps_in_window_ = 0;
  }
  fire(TENON_EVENT_BEFORE_WINDOW);
  settle_wishes();
  vote_loaded_wishes();
  bool has_data = !any_rank(!has_next_batch());
  bool is_capped = has_data && is_window_full();  // where it is gone on with
  if (!has_data && steps_in_window_ == 0) {
    note_empty_window();
  }
  while (has_data && !is_over() && !is_capped) {
    reload_where_due(ReloadPoint::kStep, state_.step);
    if (is_over()) {
      break;
    }
    ++steps_in_window_;
    has_data = run_step();
    is_capped = has_data && is_window_full();
  }
  if (!has_data) {
    fire(TENON_EVENT_OUT_OF_DATA);
    tell_end_of_window();
  }
  // A window that a horizon or a wish cut short is left, not finished.
  if (!has_data || is_capped) {
    ++state_.windows;
    check_horizon();
    if (eval_.with_window == WithWindow::kAfter) {
      evaluate_with_window();
    }
    if (eval_.every_windows > 0 &&
        state_.windows % static_cast<uint64_t>(eval_.every_windows) == 0) {
      evaluate();
    }
    data.close_window();
    rest(RestPoint::kWindow);
  }
  fire(TENON_EVENT_AFTER_WINDOW);
  settle_wishes();
}

// One update attempt. Returns whether any data is left for another one in this window.
bool Trainer::run_step() {
  ++state_.step;
  parts_.published.set(state_);
  if (parts_.profile != nullptr) {
    parts_.profile->begin_step(state_.step);
  }
  hooks_.event().step = state_.step;
  hooks_.event().microbatch = 0;
  lr_factor_.reset();
  fire(TENON_EVENT_BEFORE_STEP);

  std::vector<Microbatch> microbatches = take_microbatches();
  microbatches_ = &microbatches;
  are_figures_finite_ = true;
  figures_ = at::Tensor();
  if (has_state_buffers_) {
    parts_.flow.synchronise_buffers();
    parts_.parameters.keep_buffers();
  }
  if (parts_.plan.counts_ahead && microbatches.size() > 1) {
    count_ahead(microbatches);
  }
  for (size_t i = 0; i < microbatches.size(); ++i) {
    Microbatch& microbatch = microbatches[i];
    hooks_.event().microbatch = i;
    batch_ = &microbatch.batch;
    fire(TENON_EVENT_AFTER_DATA);
    if (i == 0) {
      if (parts_.plan.counts_ahead && microbatches.size() == 1) {
        count_ahead(microbatches);
      }
      start_agreement(microbatches);
    }
    run_microbatch(microbatches, i);
  }
  batch_ = nullptr;
  if (parts_.tables != nullptr) {
    parts_.tables->send_gradients();  // while the rest of the step is settled
  }
  hooks_.event().microbatch = 0;
  state_.samples += totals_.samples;
  state_.tokens += totals_.tokens;
  if (!parts_.plan.counts_ahead) {
    final_scale_ = seed_of(parts_.losses.weight(0), late_total(microbatches));
  }

  const Decision decision = agreement_.settle();
  finish_gradients();
  const bool is_wanted = !decision.has(Vote::kSkipUpdate);
  is_applied_ = is_wanted && !is_left_out();
  fire(TENON_EVENT_BEFORE_OPTIMIZER_STEP);
  if (are_gradients_rewritten_) {
    judge_again();
    note_judgement();
    is_applied_ = is_wanted && !is_left_out();
  }
  record_losses(microbatches);
  const double factor = lr_factor();
  lr_factor_ = factor;
  if (is_applied_) {
    parts_.optimizer.update(factor, CallPlace{state_.step, 0, true}, found_inf_);
    if (parts_.tables != nullptr && !is_found_on_device()) {
      parts_.tables->update(factor, CallPlace{state_.step, 0, true});
    }
    parts_.flow.publish();
    ++state_.updates;
    check_replicas();
  }
  if (parts_.loss_scale != nullptr) {
    parts_.loss_scale->update(overflow_);
    if (is_applied_) {  // and not by the device: what is no event has no other count
      const at::Tensor skipped = (found_inf_ * (1 - found_)).to(at::kDouble);
      scaler_skips_ = scaler_skips_.defined() ? scaler_skips_ + skipped : skipped;
    }
  }
  if (has_state_buffers_ && (is_left_out() || found_inf_.defined())) {
    parts_.parameters.restore_buffers(found_inf_);
  }
  fire(TENON_EVENT_AFTER_OPTIMIZER_STEP);
  for (FlatGroup& group : parts_.parameters.groups()) {
    group.clear_grads();
  }
  if (parts_.tables != nullptr) {
    parts_.tables->end_step(state_.step);
  }
  are_gradients_final_ = false;
  parts_.metrics.set("lr", parts_.optimizer.lr(factor));
  act_on(decision);
  hear_spikes(decision);
  check_tokens();
  check_clock(decision);
  const bool was_over = is_over();
  check_horizon();
  const bool ends_at_horizon = is_over() && !was_over && outcome_.code == ExitCode::kDone;
  if (is_over() || decision.has(Vote::kOutOfData)) {
    settle_guard();  // nothing later would hear of it in time to go back
  }
  // The last record of a window has its figures, whole.
  const bool ends_window = parts_.train_data.window().has_value() &&
                           (decision.has(Vote::kOutOfData) || is_window_full());
  if (is_log_due() || ends_window ||
      (guard_.failure().has_value() && state_.step != logged_step_)) {
    log_step();
  }
  fire(TENON_EVENT_AFTER_STEP);
  if (state_.step == first_step_ + 1 && parts_.after_first_step != nullptr) {
    parts_.after_first_step();
  }
  if (parts_.profile != nullptr && parts_.profile->ends_with(state_.step)) {
    hooks_.close_spans();
    parts_.profile->finish();
  }
  if (!is_applied_ || std::exchange(has_late_skips_, false)) {
    fire(TENON_EVENT_UPDATE_SKIPPED);
  }
  microbatches_ = nullptr;
  pin_good_one();
  if (spike_.has_value() || guard_.failure().has_value()) {
    is_over_ = is_over_ && !ends_at_horizon;  // it comes there again
    go_back();
  } else {
    const bool is_due = eval_.every_steps > 0 &&
                        state_.step % static_cast<uint64_t>(eval_.every_steps) == 0 &&
                        !parts_.eval_sets.empty();
    if (is_due || decision.has(Vote::kEvaluate)) {
      evaluate();
    }
    settle_save(decision);
  }
  rest(RestPoint::kStep);
  return !decision.has(Vote::kOutOfData);
}

void Trainer::run_microbatch(std::vector<Microbatch>& microbatches, size_t i) {
  Microbatch& microbatch = microbatches[i];
  const CallPlace place{state_.step, static_cast<uint32_t>(i), true};
  const bool has_samples = microbatch.batch.samples > 0;
  const bool is_tiled = train_.loss_tile.has_value();
  const auto extent = is_tiled ? ModelRunner::Extent::kAllButTail : ModelRunner::Extent::kWhole;
  const bool ends_step = i + 1 == microbatches.size();
  fire(TENON_EVENT_BEFORE_FORWARD);
  if (has_samples) {
    parts_.model.forward(microbatch.batch, place, extent);
  } else {
    parts_.model.forward_idle(place, extent);
  }
  fire(TENON_EVENT_AFTER_FORWARD);
  if (i == 0) {
    settle_totals(microbatches);
    if (parts_.plan.counts_ahead) {
      seed_losses(microbatches);
    }
  }
  if (parts_.loss_scale != nullptr) {
    for (at::Tensor& seed : microbatch.seeds) {
      seed = seed * parts_.loss_scale->scale();
    }
  }
  fire(TENON_EVENT_BEFORE_LOSS);
  if (has_samples) {
    if (!parts_.plan.counts_ahead) {
      microbatch.counts = parts_.losses.count(parts_.model, microbatch.batch, place);
      if (!parts_.model.aux_losses().empty()) {
        throw Error("loss.late_count",
                    "the model adds the auxiliary loss '" + parts_.model.aux_losses().front().name +
                        "', but the main loss is counted after the forward, so that the two cannot "
                        "be weighed");
      }
    }
    if (is_tiled) {
      microbatch.sums = tiled_sums(parts_.model,
                                   parts_.losses,
                                   microbatch.batch,
                                   place,
                                   *train_.loss_tile,
                                   &microbatch.seeds);
    } else {
      microbatch.sums = parts_.losses.compute(parts_.model, microbatch.batch, place);
    }
    bool is_finite = true;
    for (size_t l = 0; l < microbatch.sums.size(); ++l) {
      is_finite = is_finite_figure(microbatch.sums[l], microbatch.counts[l]) && is_finite;
    }
    if (is_finite || guard_.is_lenient()) {  // what is left out does not spoil the figures
      parts_.metric_set.train(parts_.model, microbatch.batch, place);
    }
  }
  fire(TENON_EVENT_AFTER_LOSS);
  if (has_samples) {
    for (const AuxLoss& aux : parts_.model.aux_losses()) {
      if (is_finite_figure(aux.sum, aux.count) || guard_.is_lenient()) {
        parts_.metrics.add_tensor("aux/" + aux.name, aux.sum, aux.count);
      }
    }
  }
  fire(TENON_EVENT_BEFORE_BACKWARD);
  if (has_samples) {
    if (!is_tiled) {
      parts_.losses.backward(parts_.model, microbatch.seeds);
    }
    parts_.model.backward(microbatch.aux_scale,
                          parts_.loss_scale != nullptr ? parts_.loss_scale->scale() : at::Tensor(),
                          ends_step);
  } else {
    parts_.model.backward_idle(ends_step);
  }
  fire(TENON_EVENT_AFTER_BACKWARD);
}

// ---- counting and normalising ----

bool Trainer::has_next_batch() {
  const auto asked = std::chrono::steady_clock::now();
  const bool has_next = parts_.train_data.loader().has_next();
  data_wait_ += std::chrono::steady_clock::now() - asked;
  return has_next;
}

// All microbatches of the step; fewer where the window ends: an accumulation never crosses it. All
// ranks have as many: the stream of one may end before those of others.
std::vector<Trainer::Microbatch> Trainer::take_microbatches() {
  const TraceSpan span("take batches");
  std::vector<Microbatch> microbatches;
  Loader& loader = parts_.train_data.loader();
  const DataSourceInfo& info = parts_.train_data.source().info();
  const bool is_filled_up = !is_alone() && info.style == DatasetStyle::kStream;
  for (int64_t i = 0; i < parts_.plan.microbatches_per_step; ++i) {
    const auto asked = std::chrono::steady_clock::now();
    auto batch = loader.next();
    data_wait_ += std::chrono::steady_clock::now() - asked;
    if (!batch.has_value()) {
      if (!is_filled_up) {
        break;
      }
      batch = empty_batch(info.schema);
    }
    microbatches.emplace_back();
    microbatches.back().batch = std::move(*batch);
    // Where counts come late, all sums are seeded with 1 and the gradients are divided at the end.
    microbatches.back().seeds.assign(parts_.losses.size(), one_);
  }
  if (train_.overfit_batch) {
    repeat_first_batch(microbatches);
  }
  batch_bytes_ = 0;
  for (const Microbatch& microbatch : microbatches) {
    batch_bytes_ += static_cast<int64_t>(microbatch.batch.num_bytes());
  }
  return microbatches;
}

// What was read is replaced, so that windows, epochs and horizons stay as they are without it. Each
// step gets copies: a hook may write into its batch.
void Trainer::repeat_first_batch(std::vector<Microbatch>& microbatches) {
  const auto copy_of = [](const Batch& batch) {
    Batch copy = batch;
    for (at::Tensor& field : copy.fields) {
      if (field.defined()) {
        field = field.clone();
      }
    }
    return copy;
  };
  if (first_batch_.empty()) {
    for (const Microbatch& microbatch : microbatches) {
      first_batch_.push_back(copy_of(microbatch.batch));
    }
    return;
  }
  microbatches.clear();
  for (const Batch& batch : first_batch_) {
    microbatches.emplace_back();
    microbatches.back().batch = copy_of(batch);
    microbatches.back().seeds.assign(parts_.losses.size(), one_);
  }
}

void Trainer::count_ahead(std::vector<Microbatch>& microbatches) {
  for (size_t i = 0; i < microbatches.size(); ++i) {
    Microbatch& microbatch = microbatches[i];
    if (microbatch.batch.samples > 0) {
      microbatch.counts = parts_.losses.count(
          microbatch.batch, CallPlace{state_.step, static_cast<uint32_t>(i), true});
    } else {
      microbatch.counts.assign(parts_.losses.size(), at::zeros({}, at::kDouble));
    }
  }
}

// What all ranks decide by, on its way beside the first forward: votes, and what is added up.
void Trainer::start_agreement(const std::vector<Microbatch>& microbatches) {
  if (!has_next_batch()) {
    agreement_.vote(Vote::kOutOfData);
  }
  vote_on_interruption();
  vote_on_saves();
  if (is_time_up()) {
    agreement_.vote(Vote::kTimeIsUp);
  }
  totals_ = {};
  for (const Microbatch& microbatch : microbatches) {
    totals_.samples += microbatch.batch.samples;
    totals_.tokens += microbatch.batch.tokens;
    totals_.num_parts += microbatch.batch.samples > 0 ? 1 : 0;
  }
  if (is_alone()) {
    agreement_.start();
    return;
  }
  std::vector<double> numbers = {
      static_cast<double>(totals_.samples), static_cast<double>(totals_.tokens), totals_.num_parts};
  for (size_t l = 0; parts_.plan.counts_ahead && l < parts_.losses.size(); ++l) {
    numbers.push_back(own_total(microbatches, l).item<double>());
  }
  agreement_.start(numbers);
}

// Before the first loss of a step.
void Trainer::settle_totals(const std::vector<Microbatch>& microbatches) {
  if (is_alone()) {
    for (size_t l = 0; parts_.plan.counts_ahead && l < parts_.losses.size(); ++l) {
      totals_.counts.push_back(own_total(microbatches, l));
    }
    return;
  }
  const std::span<const double> sums = agreement_.sums();
  totals_.samples = static_cast<int64_t>(sums[0]);
  totals_.tokens = static_cast<int64_t>(sums[1]);
  totals_.num_parts = sums[2];
  for (const double count : sums.subspan(3)) {
    totals_.counts.push_back(at::full({}, count, one_.options()));  // a copy would wait
  }
}

// The count of one loss over all microbatches of this rank.
at::Tensor Trainer::own_total(const std::vector<Microbatch>& microbatches, size_t loss) const {
  at::Tensor total;
  for (const Microbatch& microbatch : microbatches) {
    if (loss < microbatch.counts.size()) {
      total = total.defined() ? total + microbatch.counts[loss] : microbatch.counts[loss];
    }
  }
  return total.defined() ? total : zero_;
}

// That of all ranks, where it is known after the last forward only.
at::Tensor Trainer::late_total(const std::vector<Microbatch>& microbatches) {
  const at::Tensor total = own_total(microbatches, 0);
  if (is_alone()) {
    return total;
  }
  double value = total.item<double>();
  parts_.collective.all_reduce(std::span(&value, 1), Reduce::kSum, "counts of losses");
  return at::scalar_tensor(value, at::kDouble);
}

// By items: each sum counts for what it is of all items of the step. By microbatch: each microbatch
// counts the same.
void Trainer::seed_losses(std::vector<Microbatch>& microbatches) {
  for (size_t l = 0; l < parts_.losses.size(); ++l) {
    for (Microbatch& microbatch : microbatches) {
      microbatch.seeds[l] =
          train_.normalize == Normalize::kItems
              ? seed_of(parts_.losses.weight(l), totals_.counts[l])
              : seed_of(parts_.losses.weight(l) / totals_.num_parts, microbatch.counts[l]);
    }
  }
  for (Microbatch& microbatch : microbatches) {
    microbatch.aux_scale = 1.0 / totals_.num_parts;
  }
}

// A step whose update is left out is left out of the means too.
void Trainer::record_losses(const std::vector<Microbatch>& microbatches) {
  if (is_left_out()) {
    return;
  }
  has_loss_to_log_ = true;
  const auto unless_found = [](const at::Tensor& found, const at::Tensor& value) {
    return found.defined() ? at::where(found.eq(1), at::zeros_like(value), value) : value;
  };
  // The losses of a step that the loss scale alone has cost are as good as any.
  const at::Tensor bad_losses = guard_.is_lenient() || is_on_cpu_ ? at::Tensor() : found_;
  for (size_t l = 0; l < parts_.losses.size(); ++l) {
    const std::string& name = loss_figure(l);
    for (const Microbatch& microbatch : microbatches) {
      if (!microbatch.sums.empty()) {
        parts_.metrics.add_tensor(name,
                                  unless_found(bad_losses, microbatch.sums[l]),
                                  unless_found(bad_losses, microbatch.counts[l]));
      }
    }
  }
  // All ranks have the same norm.
  if (train_.clip_grad_norm.has_value() && parts_.collective.rank() == 0) {
    if (is_on_cpu_) {
      parts_.metrics.add("grad_norm", *norm_, 1);
    } else {
      parts_.metrics.add_tensor("grad_norm",
                                unless_found(found_inf_, device_norms_.all),
                                unless_found(found_inf_, at::ones_like(device_norms_.all)));
    }
  }
}

// The mean over the microbatches of this step that have run; undefined where none has.
at::Tensor Trainer::mean_loss_so_far() const {
  at::Tensor mean;
  for (size_t l = 0; microbatches_ != nullptr && l < parts_.losses.size(); ++l) {
    at::Tensor sum;
    at::Tensor count;
    for (const Microbatch& microbatch : *microbatches_) {
      if (!microbatch.sums.empty()) {
        const at::Tensor part = microbatch.sums[l].to(at::kDouble);
        sum = sum.defined() ? sum + part : part;
        count = count.defined() ? count + microbatch.counts[l] : microbatch.counts[l];
      }
    }
    if (sum.defined()) {
      const at::Tensor weighted = sum * seed_of(parts_.losses.weight(l), count);
      mean = mean.defined() ? mean + weighted : weighted;
    }
  }
  return mean;
}

void Trainer::finish_gradients() {
  const TraceSpan span("finish gradients");
  auto& groups = parts_.parameters.groups();
  if (parts_.tables != nullptr) {
    finish_table_gradients();
  }
  agree_on_touched();
  if (!parts_.plan.counts_ahead) {
    scale_grads(groups, final_scale_);
  }
  if (parts_.loss_scale != nullptr) {
    scale_grads(groups, parts_.loss_scale->inverse());
  }
  judge_gradients();
  if (!are_gradients_rewritten_) {
    note_judgement();  // unclipped gradients tell where it came from
  }
  if (is_left_out()) {
    return;
  }
  if (train_.clip_grad_norm.has_value()) {
    if (is_on_cpu_) {
      clip_grad_norm(groups, *norm_, *train_.clip_grad_norm);
    } else {
      clip_grad_norm(groups, device_norms_.all, *train_.clip_grad_norm);
    }
  }
  if (train_.clip_grad_value.has_value()) {
    clip_grad_value(groups, *train_.clip_grad_value);
  }
}

// Before ranks agree: what is not finite in a table on one of them is so for all.
void Trainer::finish_table_gradients() {
  double scale = 1;
  if (!parts_.plan.counts_ahead) {
    scale = final_scale_.item<double>();
  }
  if (parts_.loss_scale != nullptr) {
    scale *= parts_.loss_scale->inverse().item<double>();
  }
  parts_.tables->finish_gradients(scale);
  if (parts_.tables->non_finite().empty()) {
    return;
  }
  are_figures_finite_ = false;
  if (!is_on_cpu_) {
    const at::Tensor nan = at::full_like(one_, std::numeric_limits<double>::quiet_NaN());
    figures_ = figures_.defined() ? figures_ + nan : nan;
  }
}

// Tables on the CPU must know what a device has found.
bool Trainer::is_found_on_device() const {
  return found_inf_.defined() && found_inf_.item<float>() != 0;
}

// What any rank has a gradient for has one on all, and what is not finite on one is so on all: that
// travels beside the last gradients.
void Trainer::agree_on_touched() {
  if (is_alone()) {
    parts_.flow.finish_gradients();
  } else {
    std::vector<uint8_t> touched = parts_.flow.touched();
    touched.push_back(are_figures_finite_ ? 0 : 1);  // known by now on the CPU
    const auto gathering =
        parts_.collective.start_gather(std::as_bytes(std::span(touched)), "touched parameters");
    parts_.flow.finish_gradients();
    const std::span<const std::byte> all = gathering->wait();
    for (size_t i = 0; i < all.size(); ++i) {
      touched[i % touched.size()] |= static_cast<uint8_t>(all[i]);
    }
    are_figures_finite_ = touched.back() == 0;
    touched.pop_back();
    parts_.flow.set_touched(touched);
  }
  are_gradients_final_ = true;
  if (state_.step == 1) {
    name_unused();
  }
}

void Trainer::name_unused() const {
  std::string names;
  size_t num_unused = 0;
  for (const FlatGroup& group : parts_.parameters.groups()) {
    for (const FlatEntry& entry : group.entries()) {
      if (entry.parameter.trainable && !entry.touched) {
        const std::string& name = parts_.parameters.graph().parameters[entry.parameter.id].name;
        names += ++num_unused > 10 ? "" : (names.empty() ? "'" : ", '") + name + "'";
      }
    }
  }
  if (num_unused > 0 && parts_.collective.rank() == 0) {
    log_info("no gradient in the first step for " + std::to_string(num_unused) +
             (num_unused == 1 ? " parameter: " : " parameters: ") + names +
             (num_unused > 10 ? ", ..." : "") + "; what has none is not updated");
  }
}

void Trainer::check_replicas() {
  const int64_t every = parts_.recipe.parallel.check_replicas_every;
  if (every > 0 && state_.step % static_cast<uint64_t>(every) == 0 && !is_alone()) {
    parts_.flow.check_replicas(parts_.collective, parts_.mesh);
  }
}

// ---- what is not finite ----

// One pass over the gradients gives their norm, and with it whether all are finite.
void Trainer::judge_gradients() {
  if (is_on_cpu_) {
    share_norm();
    is_finite_ = std::isfinite(*norm_) && are_figures_finite_;
    return;
  }
  is_finite_ = true;
  device_norms_ = device_grad_norms(parts_.parameters.groups());
  if (!is_alone()) {
    share_device_judgement();
  }
  const at::Tensor& norm = device_norms_.all;
  found_ = at::isfinite(figures_.defined() ? norm + figures_ : norm).logical_not().to(at::kFloat);
  found_inf_ = guard_.is_lenient() ? at::Tensor() : found_;
  if (parts_.loss_scale != nullptr) {
    excuse_overflow(norm);
  }
}

// The norms of the gradients that ranks answer for become one. Where all have the same gradients,
// nobody has to be asked.
void Trainer::share_norm() {
  const auto& groups = parts_.parameters.groups();
  if (is_alone() || (parts_.flow.is_replicated() && !are_gradients_rewritten_)) {
    norm_ = grad_norm(groups, NormOf::kAll);
    return;
  }
  const double mine = grad_norm(groups);
  const auto gathering =
      parts_.collective.start_gather(std::as_bytes(std::span(&mine, 1)), "norm of the gradients");
  const std::span<const std::byte> all = gathering->wait();
  norm_ = 0;
  for (uint32_t rank = 0; rank < parts_.collective.world_size(); ++rank) {
    double of_rank = 0;
    std::memcpy(&of_rank, all.data() + rank * sizeof(of_rank), sizeof(of_rank));
    norm_ = std::hypot(*norm_, of_rank);
  }
}

// The same without waiting for the device.
void Trainer::share_device_judgement() {
  const at::Tensor own = device_norms_.all.to(parts_.parameters.device());
  const at::Tensor mine = at::stack({own, figures_.defined() ? figures_ : at::zeros_like(own)});
  at::Tensor all = at::empty({2 * parts_.norms->size()}, mine.options());
  parts_.norms->all_gather(all, mine, "norm of the gradients")->wait();
  const at::Tensor of_ranks = all.view({-1, 2});
  device_norms_.all = at::linalg_vector_norm(of_ranks.select(1, 0), 2);
  figures_ = of_ranks.select(1, 1).sum();
}

// Gradients that overflow under a loss scale leave the update out whatever the policy, and make the
// scale fall. That is how it finds its place, and nothing to report, unless the losses were not
// finite already, or there is hardly a scale left that could be at fault.
void Trainer::excuse_overflow(const at::Tensor& norm) {
  overflow_ = at::isfinite(norm).logical_not().to(at::kFloat);
  at::Tensor excused = overflow_ * (parts_.loss_scale->scale() > 1);
  if (figures_.defined()) {
    excused = excused * at::isfinite(figures_);
  }
  found_inf_ = guard_.is_lenient() ? overflow_ : found_;
  found_ = found_ * (1 - excused);
}

// After a hook has had the gradients in hand. The norm that is told is that before clipping.
void Trainer::judge_again() {
  const std::optional<double> norm = norm_;
  const at::Tensor device_norm = device_norms_.all;
  judge_gradients();
  norm_ = norm;
  device_norms_.all = device_norm;
}

// Losses count too: one that is NaN may have a gradient that is not, and no meaning.
bool Trainer::is_finite_figure(const at::Tensor& sum, const at::Tensor& count) {
  if (is_on_cpu_) {
    const bool is_finite = std::isfinite(sum.item<double>()) && std::isfinite(count.item<double>());
    are_figures_finite_ = are_figures_finite_ && is_finite;
    return is_finite;
  }
  // Nothing times what is finite is nothing; times anything else it is NaN.
  const at::Tensor judged = (sum.to(at::kDouble) + count.to(sum.device())) * 0.0;
  figures_ = figures_.defined() ? figures_ + judged : judged;
  return true;
}

// Before anything is changed by the step: a step that went wrong is looked at as it was.
void Trainer::note_judgement() {
  const auto origin = [&] {
    std::vector<PastMicrobatch> past;
    past.reserve(microbatches_->size());
    for (const Microbatch& microbatch : *microbatches_) {
      past.push_back({&microbatch.batch, &microbatch.sums, &microbatch.counts});
    }
    NonFiniteOrigin origin = find_non_finite_origin(
        parts_.model,
        parts_.parameters,
        parts_.losses,
        past,
        state_.step,
        is_alone() ? OriginSearch::kUntilFound : OriginSearch::kInStepWithRanks);
    const std::string of_tables = parts_.tables != nullptr ? parts_.tables->non_finite() : "";
    if (!of_tables.empty() && origin.distance > OriginDistance::kGradient) {
      origin = {OriginDistance::kGradient, of_tables + " is not finite"};
    }
    return origin_among_ranks(origin);
  };
  if (is_on_cpu_) {
    guard_.record(state_.step, is_finite_, origin);
    return;
  }
  if (guard_.is_settling_due()) {  // trouble: worth waiting for the device, to see where it is
    settle_guard();
    is_finite_ = found_.item<float>() == 0;
    guard_.record(state_.step, is_finite_, origin);
    return;
  }
  std::vector<uint32_t> parameters;
  for (const FlatGroup& group : parts_.parameters.groups()) {
    for (const FlatEntry& entry : group.entries()) {
      if (entry.touched) {
        parameters.push_back(entry.parameter.id);
      }
    }
  }
  guard_.record_later(state_.step,
                      found_,
                      [this, parameters = std::move(parameters), norms = device_norms_.by_entry] {
                        return origin_among_ranks(
                            non_finite_gradient(parts_.parameters.graph(), parameters, norms));
                      });
}

// Where it arose on the rank that is nearest to the cause: gradients are spoilt on all.
std::string Trainer::origin_among_ranks(const NonFiniteOrigin& mine) {
  if (is_alone()) {
    return mine.text;
  }
  const auto all = parts_.collective.gather_texts(
      std::to_string(static_cast<int>(mine.distance)) + mine.text, "where it arose");
  const auto nearest =
      std::ranges::min_element(all, {}, [](const std::string& text) { return text.front(); });
  return "rank " + std::to_string(nearest - all.begin()) + ": " + nearest->substr(1);
}

// Reads the loss scale and what it has cost, for a record.
void Trainer::settle_loss_scale() {
  const at::Tensor skips = scaler_skips_.defined() ? scaler_skips_ : zero_;
  const at::Tensor scale = parts_.loss_scale->scale().to(at::kDouble);
  const at::Tensor values = at::stack({scale, skips.to(scale.device())}).to(at::kCPU);
  scaler_skips_.reset();
  parts_.metrics.set("loss_scale", values[0].item<double>());
  const auto num_skips = static_cast<uint64_t>(values[1].item<double>());
  state_.updates -= num_skips;
  has_late_skips_ = has_late_skips_ || num_skips > 0;
}

// Hears what a device has found since the last time.
void Trainer::settle_guard() {
  const size_t num_found = guard_.settle();
  if (num_found > 0 && !guard_.is_lenient()) {
    state_.updates -= num_found;
    has_late_skips_ = true;
  }
}

// ---- deciding ----

bool Trainer::any_rank(bool mine) {
  int64_t value = mine ? 1 : 0;
  parts_.collective.all_reduce(std::span(&value, 1), Reduce::kMax, "a vote");
  return value != 0;
}

// Between steps wishes act at once.
void Trainer::settle_wishes() {
  vote_on_interruption();
  const Decision decision = agreement_.settle_now();
  if (decision.has(Vote::kSkipUpdate)) {
    agreement_.vote(Vote::kSkipUpdate);  // meant for the next step
  }
  if (decision.has(Vote::kRollBack)) {
    agreement_.vote(Vote::kRollBack);  // acts at the end of a step, whoever is asked before
  }
  act_on(decision);
  if (decision.has(Vote::kCheckpoint)) {
    is_checkpoint_asked_ = true;
  }
  if (decision.has(Vote::kEvaluate)) {
    evaluate();
  }
}

int Trainer::signal_received() const {
  return parts_.signals != nullptr ? parts_.signals->received() : 0;
}

bool Trainer::is_interrupted() const {
  return signal_received() != 0 ||
         (!train_.kill_switch.empty() && access(train_.kill_switch.c_str(), F_OK) == 0);
}

std::string Trainer::own_interruption() const {
  if (const int signal = signal_received(); signal != 0) {
    return std::string("received ") + SignalWatch::name(signal);
  }
  return is_interrupted() ? "the kill switch " + train_.kill_switch + " is there" : "";
}

// A collective call, as is first_text().
std::string Trainer::interruption_text() {
  return first_text(own_interruption());
}

// What the first rank that has anything to say says.
std::string Trainer::first_text(const std::string& mine) {
  if (is_alone()) {
    return mine;
  }
  const auto all = parts_.collective.gather_texts(mine, "reason to end");
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) {
      return rank == 0 ? all[rank] : "rank " + std::to_string(rank) + ": " + all[rank];
    }
  }
  return "";
}

void Trainer::vote_on_interruption() {
  if (is_interrupted()) {
    agreement_.vote(Vote::kInterrupted);
  }
}

void Trainer::act_on(const Decision& decision) {
  if (decision.has(Vote::kStop)) {
    const std::string reason = first_text(stop_reason_);
    end_with(ExitCode::kDone, reason.empty() ? "a hook asked to stop" : reason);
  }
  // A signal during the step's computation acts at its end where nobody else has to be asked.
  if (decision.has(Vote::kInterrupted) || (is_alone() && signal_received() != 0)) {
    is_cut_by_signal_ = true;
    end_with(ExitCode::kStopped, interruption_text());
  }
}

void Trainer::check_horizon() {
  const auto reached = [](const std::optional<int64_t>& limit, uint64_t value) {
    return limit.has_value() && value >= static_cast<uint64_t>(*limit);
  };
  const auto text = [](uint64_t n, const char* unit) {
    return "reached " + std::to_string(n) + " " + unit + (n == 1 ? "" : "s");
  };
  if (reached(train_.steps, state_.step)) {
    end_with(ExitCode::kDone, text(state_.step, "step"));
  } else if (reached(train_.windows, state_.windows)) {
    end_with(ExitCode::kDone, text(state_.windows, "window"));
  } else if (train_.tokens.has_value() && state_.tokens >= *train_.tokens) {
    end_with(ExitCode::kDone, text(static_cast<uint64_t>(state_.tokens), "token"));
  } else if (reached(train_.epochs, state_.epochs)) {
    end_with(ExitCode::kDone, text(state_.epochs, "epoch"));
  } else if (state_.step > first_step_ && reached(train_.exit_at_step, state_.step)) {
    end_with(ExitCode::kStopped, "exit_at_step " + std::to_string(*train_.exit_at_step));
  } else if (reached(train_.exit_after_steps, state_.step - first_step_)) {
    end_with(ExitCode::kStopped, "exit_after_steps " + std::to_string(*train_.exit_after_steps));
  }
}

// Clocks differ between ranks: what any of them read before the step's forward counts for all, and
// where nobody else has to be asked, what the time is now.
void Trainer::check_clock(const Decision& decision) {
  const bool is_late = is_alone() && is_time_up();
  if (decision.has(Vote::kTimeIsUp) || is_late) {
    end_in_time();
  }
}

void Trainer::end_in_time() {
  char text[48];
  std::snprintf(
      text, sizeof(text), "reached %g minute%s", *train_.minutes, *train_.minutes == 1 ? "" : "s");
  end_with(ExitCode::kDone, text);
}

// A horizon that can never be reached would be a run without end.
void Trainer::check_tokens() const {
  if (train_.tokens.has_value() && state_.tokens == 0) {
    throw Error("data.no_tokens",
                "/train/tokens ends the run after " + std::to_string(*train_.tokens) +
                    " tokens, but the first step had none: " + parts_.train_data.source().name() +
                    " does not count tokens; give the horizon in steps or epochs");
  }
}

bool Trainer::is_time_up() const {
  return train_.minutes.has_value() && seconds_so_far() >= *train_.minutes * 60;
}

void Trainer::end_with(ExitCode code, std::string reason) {
  if (!is_over_) {
    is_over_ = true;
    outcome_.code = code;
    outcome_.reason = std::move(reason);
  }
}

// ---- telling ----

// The one loss of a run is called "loss"; several, or a weighted one, have a figure each beside the
// sum.
const std::string& Trainer::loss_figure(size_t l) const {
  return loss_figures_[l];
}

bool Trainer::is_log_due() const {
  return state_.step == 1 ||
         (train_.log_every > 0 && state_.step % static_cast<uint64_t>(train_.log_every) == 0);
}

// Hooks that ask for whole parameters get them, on all ranks; what hooks have written goes where it
// belongs.
void Trainer::fire_with_parameters(uint32_t event) {
  const bool is_full = (full_parameters_ & TENON_EVENT_BIT(event)) != 0;
  const bool is_written = (parameter_writes_ & TENON_EVENT_BIT(event)) != 0;
  const bool are_grads_written =
      are_gradients_rewritten_ && event == TENON_EVENT_BEFORE_OPTIMIZER_STEP;
  auto& groups = parts_.parameters.groups();
  parts_.flow.settle();
  if (is_full) {
    for (FlatGroup& group : groups) {
      full_values_.push_back(parts_.flow.gather_stored(group));
      full_grads_.push_back(are_gradients_final_ && group.any_touched()
                                ? parts_.flow.gather_gradient(group)
                                : at::Tensor());
    }
  }
  hooks_.fire(event);
  for (size_t g = 0; is_full && g < groups.size(); ++g) {
    const int64_t begin = groups[g].sharing().slice * groups[g].slice_numel();
    if (is_written) {
      groups[g].data().copy_(full_values_[g].narrow(0, begin, groups[g].slice_numel()));
    }
    if (are_grads_written && full_grads_[g].defined()) {
      groups[g].grad().copy_(full_grads_[g].narrow(0, begin, groups[g].slice_numel()));
    }
  }
  full_values_.clear();
  full_grads_.clear();
  if (is_written) {
    parts_.flow.publish();
  }
}

void Trainer::log_step() {
  settle_guard();
  if (parts_.loss_scale != nullptr) {
    settle_loss_scale();
  }
  const auto now = std::chrono::steady_clock::now();
  const double seconds =
      std::max(1e-9, std::chrono::duration<double>(now - logged_at_).count() - paused_seconds_);
  const double steps = static_cast<double>(state_.step - logged_step_);
  ProgressState progress;
  progress.step = state_.step;
  if (train_.steps.has_value()) {
    progress.total_steps = static_cast<uint64_t>(*train_.steps);
  }
  progress.window = parts_.train_data.window_label();
  progress.samples_per_second = static_cast<double>(state_.samples - logged_samples_) / seconds;
  progress.tokens_per_second = static_cast<double>(state_.tokens - logged_tokens_) / seconds;
  progress.seconds = seconds_so_far();
  parts_.metrics.set("samples_per_second", progress.samples_per_second);
  if (state_.tokens > 0) {
    parts_.metrics.set("tokens_per_second", progress.tokens_per_second);
  }
  if (parts_.gpu != nullptr) {
    const GpuMemory memory = parts_.gpu->memory();
    const auto set_largest = [&](const char* name, int64_t bytes) {
      parts_.metrics.set(name, static_cast<double>(bytes), MetricBook::OfRanks::kLargest);
    };
    set_largest("gpu/allocated_bytes", memory.allocated);
    set_largest("gpu/reserved_bytes", memory.reserved);
    set_largest("gpu/peak_bytes", memory.peak_allocated);
  }
  parts_.metrics.set("step_seconds", seconds / std::max(1.0, steps));
  parts_.metrics.set("data_wait_seconds",
                     std::chrono::duration<double>(data_wait_).count() / std::max(1.0, steps),
                     MetricBook::OfRanks::kLargest);
  parts_.metrics.share(parts_.collective);
  const bool has_loss = std::exchange(has_loss_to_log_, false);
  if (has_loss && (parts_.losses.size() > 1 || parts_.losses.weight(0) != 1)) {
    double loss = 0;
    for (size_t l = 0; l < parts_.losses.size(); ++l) {
      loss += parts_.losses.weight(l) * parts_.metrics.mean(loss_figure(l));
    }
    parts_.metrics.set("loss", loss);
  }
  for (const auto& [name, value] :
       parts_.metric_set.close_record(parts_.collective, CallPlace{state_.step, 0, true})) {
    parts_.metrics.set(name, value);
  }
  progress.non_finite_steps = guard_.count().steps;
  if (progress.non_finite_steps > 0) {
    parts_.metrics.set("non_finite_steps", static_cast<double>(progress.non_finite_steps));
  }
  if (!outcome_.roll_backs.empty()) {
    parts_.metrics.set("roll_backs", static_cast<double>(outcome_.roll_backs.size()));
  }
  record_mix();
  record_tables();
  MetricRecord record = parts_.metrics.close(state_.step);
  record.window = parts_.train_data.window_label();
  parts_.sinks.write(record);
  const auto value = [&](const char* name) {
    const double* found = record.find(name);
    return found != nullptr ? *found : 0.0;
  };
  progress.loss = has_loss ? value("loss") : std::numeric_limits<double>::quiet_NaN();
  progress.lr = value("lr");
  if (const double* norm = record.find("grad_norm")) {
    progress.grad_norm = *norm;
  }
  parts_.progress.show(progress);
  logged_step_ = state_.step;
  logged_samples_ = state_.samples;
  logged_tokens_ = state_.tokens;
  logged_at_ = now;
  paused_seconds_ = 0;
  data_wait_ = {};
}

// What is not trained on. A stream's shards are those of each rank.
void Trainer::tell_end_of_window() {
  DataStream& data = parts_.train_data;
  const std::string window =
      data.window_label().empty() ? "the window" : "window " + data.window_label();
  int64_t left_out[] = {data.loader().num_dropped(), 0};  // samples, ranks that had more
  if (!is_alone() && data.source().info().style == DatasetStyle::kStream) {
    left_out[1] = data.loader().has_next() ? 1 : 0;
    parts_.collective.all_reduce(std::span(left_out), Reduce::kSum, "end of a window");
  }
  if (parts_.collective.rank() != 0) {
    return;
  }
  if (left_out[0] > 0) {
    log_info(std::to_string(left_out[0]) + " samples were left out at the end of " + window);
  }
  if (left_out[1] > 0) {
    log_info(window + " ended for all ranks with the first stream that ended; " +
             std::to_string(left_out[1]) + " of " + std::to_string(parts_.collective.world_size()) +
             " ranks had more, which was left out");
  }
}

void Trainer::note_empty_window() {
  const DataStream& data = parts_.train_data;
  if (!data.window().has_value()) {
    return;
  }
  ++outcome_.windows.empty;
  if (parts_.collective.rank() == 0) {
    log_info("window " + data.window_label() + " is empty");
  }
}

void Trainer::note_end_of_epoch() {
  const DataStream& data = parts_.train_data;
  const std::vector<std::string> unmatched = data.left_out().unmatched();
  if (!unmatched.empty() && !has_told_skip_list_ && parts_.collective.rank() == 0) {
    std::string names;
    for (const std::string& name : unmatched) {
      names += (names.empty() ? "" : ", ") + name;
    }
    log_warning("/data/skip_windows: no window of the epoch has the label or id " + names);
  }
  has_told_skip_list_ = true;
}

// How much of each source of a mix has been read in this run, over all ranks.
void Trainer::record_mix() {
  const DataSource& source = parts_.train_data.source();
  std::vector<int64_t> samples = parts_.train_data.part_samples();
  if (!samples.empty() && source.info().style == DatasetStyle::kStream) {
    parts_.collective.all_reduce(std::span(samples), Reduce::kSum, "samples of a mix");
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    const MixPartInfo& part = source.parts()[i];
    const auto count = static_cast<double>(samples[i]);
    parts_.metrics.set(mix_figure(part, "samples"), count);
    if (part.size.has_value() && *part.size > 0) {
      parts_.metrics.set(mix_figure(part, "epochs"), count / static_cast<double>(*part.size));
    }
  }
}

// How large tables are, and what they did since the last record; of all ranks together.
void Trainer::record_tables() {
  if (parts_.tables == nullptr) {
    return;
  }
  const std::vector<TableFigures> tables = parts_.tables->take_figures();
  std::vector<int64_t> figures;
  for (const TableFigures& table : tables) {
    figures.insert(figures.end(),
                   {table.rows,
                    table.bytes,
                    table.counts.inserted,
                    table.counts.refused,
                    table.counts.evicted});
  }
  parts_.collective.all_reduce(std::span(figures), Reduce::kSum, "figures of tables");
  constexpr const char* kNames[] = {"rows", "bytes", "inserted", "refused", "evicted"};
  std::array<int64_t, std::size(kNames)> all{};
  for (size_t i = 0; i < figures.size(); ++i) {
    const size_t which = i % std::size(kNames);
    all[which] += figures[i];
    const bool is_telling = which < 2 || figures[i] != 0;
    if (is_telling) {
      parts_.metrics.set("tables/" + tables[i / std::size(kNames)].name + "/" + kNames[which],
                         static_cast<double>(figures[i]));
    }
  }
  for (size_t which = 0; which < all.size(); ++which) {
    parts_.metrics.set(std::string("tables/") + kNames[which], static_cast<double>(all[which]));
  }
}

// At the time of an error: the step's own tensors may be gone already.
std::string Trainer::memory_report() const {
  HeldMemory held;
  for (const FlatGroup& group : parts_.parameters.groups()) {
    held.parameters += static_cast<int64_t>(group.data().nbytes());
    held.gradients += static_cast<int64_t>(group.grad().nbytes());
    if (group.has_copy()) {
      const auto bytes = static_cast<int64_t>(group.seen_view(0).element_size());
      held.parameters += group.data().numel() * bytes;
    }
  }
  held.optimizer = parts_.optimizer.state_bytes();
  if (parts_.tables != nullptr) {
    held.tables = parts_.tables->num_bytes();
  }
  held.batches = batch_bytes_;
  return parts_.gpu != nullptr
             ? gpu_memory_report(held, parts_.gpu->memory(), parts_.gpu->refused())
             : cpu_memory_report(held, resident_bytes());
}

double Trainer::lr_factor() const {
  const double scheduled = parts_.lr_scheduler != nullptr
                               ? parts_.lr_scheduler->factor(state_.step > 0 ? state_.step - 1 : 0,
                                                             parts_.plan.total_steps)
                               : 1.0;
  return scheduled * hook_lr_factor_;
}

double Trainer::seconds_so_far() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

// ---- what hooks see ----

void Trainer::wish(uint32_t wishes, const std::string& reason) {
  constexpr uint32_t kGranted = TENON_WISH_SKIP_UPDATE | TENON_WISH_EVALUATE | TENON_WISH_STOP |
                                TENON_WISH_CHECKPOINT | TENON_WISH_ROLL_BACK;
  if ((wishes & ~kGranted) != 0) {
    throw Error(
        "hook.bad_wish",
        "a wish that this release does not know: it can skip an update, evaluate, save, stop "
        "and go back");
  }
  if ((wishes & TENON_WISH_CHECKPOINT) != 0 && parts_.checkpoints == nullptr) {
    throw Error("hook.bad_wish",
                "the recipe does not say how the run is saved; give it a section /checkpoint");
  }
  if ((wishes & TENON_WISH_EVALUATE) != 0 && parts_.eval_sets.empty()) {
    throw Error("hook.bad_wish",
                "the recipe has no dataset to evaluate on; give one at /data/eval");
  }
  if ((wishes & TENON_WISH_SKIP_UPDATE) != 0) {
    agreement_.vote(Vote::kSkipUpdate);
  }
  if ((wishes & TENON_WISH_EVALUATE) != 0) {
    agreement_.vote(Vote::kEvaluate);
  }
  if ((wishes & TENON_WISH_CHECKPOINT) != 0) {
    agreement_.vote(Vote::kCheckpoint);
  }
  if ((wishes & TENON_WISH_STOP) != 0) {
    agreement_.vote(Vote::kStop);
    stop_reason_ = reason;
  }
  if ((wishes & TENON_WISH_ROLL_BACK) != 0) {
    roll_back(state_.step, reason);
  }
}

std::optional<double> Trainer::metric(std::string_view name) const {
  return parts_.metrics.last(name);
}

const at::Tensor* Trainer::scalar(std::string_view name) {
  if (name == "loss") {
    loss_ = mean_loss_so_far();
    return &loss_;
  }
  if (name == "grad_norm") {
    grad_norm_ = norm_.has_value() ? at::scalar_tensor(*norm_, at::kDouble) : device_norms_.all;
    return &grad_norm_;
  }
  if (name == "applied") {
    applied_ = is_applied_ ? one_ : zero_;
    if (found_inf_.defined()) {
      applied_ = (1 - found_inf_) * applied_;
    }
    return &applied_;
  }
  return nullptr;
}

void Trainer::add_metric(const std::string& name, double value) {
  parts_.metrics.set(name, value);
}

at::Tensor* Trainer::field(std::string_view name) {
  return batch_ != nullptr ? const_cast<at::Tensor*>(batch_->find(name)) : nullptr;
}

void Trainer::set_lr_factor(double factor) {
  hook_lr_factor_ = factor;
}

size_t Trainer::num_parameters() const {
  return parts_.parameters.graph().parameters.size();
}

ParameterView Trainer::parameter(size_t i) {
  const auto p = static_cast<uint32_t>(i);
  const auto& place = parts_.parameters.place(p);
  const FlatGroup& group = parts_.parameters.groups()[place.group];
  const FlatEntry& entry = group.entries()[place.entry];
  const bool is_full = !full_values_.empty();
  const auto whole_view = [&entry](const at::Tensor& whole) {
    return whole.narrow(0, entry.offset, entry.numel).view(entry.parameter.shape);
  };
  parameter_values_ = {is_full ? whole_view(full_values_[place.group])
                               : group.data_view(place.entry)};
  const bool has_grad =
      is_full ? full_grads_[place.group].defined() : are_gradients_final_ || parts_.flow.is_idle();
  if (place.trainable && entry.touched && has_grad) {
    parameter_values_.push_back(is_full ? whole_view(full_grads_[place.group])
                                        : group.grad_view(place.entry));
  }
  ParameterView view;
  view.name = &parts_.parameters.graph().parameters[i].name;
  view.value = parameter_values_.data();
  view.grad = parameter_values_.size() > 1 ? &parameter_values_[1] : nullptr;
  view.offset = is_full ? 0 : group.part(place.entry).in_parameter;
  view.numel = entry.numel;
  return view;
}

const std::string& Trainer::run_dir() const {
  return parts_.run_dir;
}

size_t Trainer::num_lr_groups() const {
  return parts_.optimizer.partitions().size();
}

LrGroupView Trainer::lr_group(size_t i) {
  const OptimizedPartition& partition = parts_.optimizer.partitions()[i];
  return {.name = &partition.name,
          .match = &partition.match,
          .base_rate = partition.lr,
          .rate = partition.lr * (lr_factor_.has_value() ? *lr_factor_ : lr_factor())};
}

std::optional<double> Trainer::lr_group_option(size_t i, const std::string& pointer) const {
  return number_option(parts_.optimizer.partitions()[i].options, pointer);
}

}  // namespace tenon
