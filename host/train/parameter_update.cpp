// SPDX-License-Identifier: Apache-2.0
#include "host/train/parameter_update.hpp"

#include "host/log/log.hpp"
#include "host/optim/clip.hpp"
#include "host/tensor/trace_span.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace tenon {

ParameterUpdate::ParameterUpdate(RunServices& run,
                                 RunState& state,
                                 GradientStatistics& gradients,
                                 FiniteCheck& finite_check,
                                 LoopEvents& events,
                                 HookView& view)
    : run_(run),
      state_(state),
      gradients_(gradients),
      finite_check_(finite_check),
      events_(events),
      view_(view),
      has_state_buffers_(std::ranges::any_of(
          run.model.parameters.graph().buffers,
          [](const ModelBuffer& buffer) { return buffer.kind == TENON_BUFFER_STATE; })) {
  if (run_.recipe().train.update_in_backward) {
    freed_.emplace(run_.model.parameters.groups());
    run_.model.sharded.on_final_gradients([this](size_t group) { update_group(group); });
  }
}

void ParameterUpdate::begin_step() {
  if (freed_.has_value()) {
    freed_->begin_step();
  }
  if (has_state_buffers_) {
    run_.model.parameters.keep_buffers();
  }
}

// Once a gradient is non-finite, no further group is updated, unless the policy applies the update.
void ParameterUpdate::update_group(size_t group) {
  FlatGroup& flat = run_.model.parameters.groups()[group];
  if (!flat.is_trainable() || !flat.any_has_grad()) {
    return;
  }
  const at::AutoGradMode no_grad(false);
  const FiniteCheck& check = finite_check_;
  flat.resolve_grads();
  const bool is_finite = freed_->add(group) && gradients_.are_losses_finite();
  if (run_.recipe().train.clip_grad_value.has_value()) {
    clip_grad_value(flat, *run_.recipe().train.clip_grad_value);
  }
  const bool is_exempt = check.guard().is_exempt();
  if (is_finite || is_exempt) {
    run_.model.optimizer.update_group(group,
                                      view_.lr_factor(),
                                      {state_.step, 0, true},
                                      is_exempt ? at::Tensor() : freed_->found_inf());
  }
  flat.release_grads();
}

void ParameterUpdate::run(bool is_wanted,
                          const at::Tensor& scale,
                          const FiniteCheck::FindOrigin& find_origin,
                          const std::function<void()>& on_final) {
  FiniteCheck& check = finite_check_;
  StepValues& step = view_.step();
  {
    const TraceSpan span("finish gradients");
    finish_gradients(scale);
    gradients_.measure(freed_.has_value() ? &*freed_ : nullptr);
    check.check();
    if (!events_.rewrites_gradients()) {
      // Unclipped gradients show the origin.
      check.record(freed_.has_value() ? [this] { return freed_->origin(); } : find_origin);
    }
    clip();
  }
  step.is_applied = is_wanted && !check.is_skipped();
  events_.fire(TENON_EVENT_BEFORE_OPTIMIZER_STEP);
  if (events_.rewrites_gradients()) {
    gradients_.measure_again();
    check.check();
    check.record(find_origin);
    step.is_applied = is_wanted && !check.is_skipped();
  }
  on_final();
  const double factor = view_.lr_factor();
  step.lr_factor = factor;
  if (step.is_applied) {
    apply(factor);
  }
  check.update_loss_scale(step.is_applied);
  if (has_state_buffers_ && (check.is_skipped() || check.found_inf().defined())) {
    run_.model.parameters.restore_buffers(check.found_inf());
  }
  events_.fire(TENON_EVENT_AFTER_OPTIMIZER_STEP);
  for (FlatGroup& group : run_.model.parameters.groups()) {
    group.clear_grads();
  }
  if (run_.model.tables != nullptr) {
    run_.model.tables->end_step(state_.step);
  }
  step.are_gradients_final = false;
}

void ParameterUpdate::finish_gradients(const at::Tensor& scale) {
  auto& groups = run_.model.parameters.groups();
  if (run_.model.tables != nullptr) {
    finish_table_gradients(scale);
  }
  share_has_grad();
  if (scale.defined()) {
    scale_grads(groups, scale);
  }
  if (run_.model.loss_scale.has_value()) {
    scale_grads(groups, run_.model.loss_scale->inverse());
  }
}

// Runs before ranks agree: non-finite gradients of a table on one rank make the step non-finite on
// all ranks.
void ParameterUpdate::finish_table_gradients(const at::Tensor& scale) {
  double factor = scale.defined() ? scale.item<double>() : 1;
  if (run_.model.loss_scale.has_value()) {
    factor *= run_.model.loss_scale->inverse().item<double>();
  }
  run_.model.tables->finish_gradients(factor);
  if (!run_.model.tables->non_finite().empty()) {
    gradients_.fail_tables();
  }
}

// If a parameter has a gradient on one rank, it has a gradient on all ranks, also on those that
// store nothing of it. Losses that are non-finite on one rank count as non-finite on all. Ranks
// exchange both while the last gradients are reduced.
void ParameterUpdate::share_has_grad() {
  if (run_.is_alone()) {
    run_.model.sharded.finish_gradients();
  } else {
    std::vector<uint8_t> has_grad = run_.model.sharded.has_grad();
    has_grad.push_back(gradients_.are_losses_finite() ? 0 : 1);
    const auto gathering = run_.ranks.groups.all().start_gather(std::as_bytes(std::span(has_grad)),
                                                                "touched parameters");
    run_.model.sharded.finish_gradients();
    const std::span<const std::byte> all = gathering->wait();
    for (size_t i = 0; i < all.size(); ++i) {
      has_grad[i % has_grad.size()] |= static_cast<uint8_t>(all[i]);
    }
    gradients_.set_losses_finite(has_grad.back() == 0);
    has_grad.pop_back();
    run_.model.sharded.set_has_grad(has_grad);
  }
  view_.step().are_gradients_final = true;
  if (state_.step == 1) {
    report_unused();
  }
}

void ParameterUpdate::report_unused() const {
  constexpr size_t kMostNames = 10;
  std::string names;
  size_t num_unused = 0;
  for (const FlatGroup& group : run_.model.parameters.groups()) {
    for (const FlatEntry& entry : group.entries()) {
      if (entry.parameter.trainable && !entry.has_grad) {
        const std::string& name = run_.model.parameters.graph().parameters[entry.parameter.id].name;
        names += ++num_unused > kMostNames ? "" : (names.empty() ? "'" : ", '") + name + "'";
      }
    }
  }
  if (num_unused > 0 && run_.role().is_first()) {
    log_info(formatted("{} received no gradient in step 1 and will not be updated: {}{}",
                       counted(num_unused, "parameter"),
                       names,
                       num_unused > kMostNames ? ", ..." : ""));
  }
}

void ParameterUpdate::clip() {
  if (finite_check_.is_skipped() || run_.recipe().train.update_in_backward) {
    return;
  }
  if (run_.recipe().train.clip_grad_norm.has_value()) {
    gradients_.clip(*run_.recipe().train.clip_grad_norm);
  }
  if (run_.recipe().train.clip_grad_value.has_value()) {
    clip_grad_value(run_.model.parameters.groups(), *run_.recipe().train.clip_grad_value);
  }
}

void ParameterUpdate::apply(double factor) {
  const CallPoint point{state_.step, 0, true};
  if (!run_.recipe().train.update_in_backward) {
    run_.model.optimizer.update(factor, point, finite_check_.found_inf());
  }
  // Tables are on the CPU, so their update waits for the result of the check on the device.
  if (run_.model.tables != nullptr && !finite_check_.is_found_on_device()) {
    run_.model.tables->update(factor, point);
  }
  run_.model.sharded.publish();
  ++state_.updates;
  if (run_.model.averages.has_value()) {
    run_.model.averages->update(state_.step);
  }
  check_replicas();
}

void ParameterUpdate::check_replicas() {
  const int64_t every = run_.recipe().parallel.check_replicas_every;
  if (every > 0 && state_.step % static_cast<uint64_t>(every) == 0 && !run_.is_alone()) {
    run_.model.sharded.check_replicas();
  }
}

}  // namespace tenon
