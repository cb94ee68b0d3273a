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

ParameterUpdate::ParameterUpdate(Parts parts)
    : parts_(parts),
      has_state_buffers_(std::ranges::any_of(
          parts.parameters.graph().buffers,
          [](const ModelBuffer& buffer) { return buffer.kind == TENON_BUFFER_STATE; })) {
  if (parts_.train.update_in_backward) {
    freed_.emplace(parts_.parameters.groups());
    parts_.sharded.on_final_gradients([this](size_t group) { update_group(group); });
  }
}

void ParameterUpdate::begin_step() {
  if (freed_.has_value()) {
    freed_->begin_step();
  }
  if (has_state_buffers_) {
    parts_.parameters.keep_buffers();
  }
}

// Once a gradient is non-finite, no further group is updated, unless the policy applies the update.
void ParameterUpdate::update_group(size_t group) {
  FlatGroup& flat = parts_.parameters.groups()[group];
  if (!flat.is_trainable() || !flat.any_has_grad()) {
    return;
  }
  const at::AutoGradMode no_grad(false);
  const FiniteCheck& check = parts_.finite_check;
  flat.resolve_grads();
  const bool is_finite = freed_->add(group) && check.are_metrics_finite();
  if (parts_.train.clip_grad_value.has_value()) {
    clip_grad_value(flat, *parts_.train.clip_grad_value);
  }
  const bool is_exempt = check.guard().is_exempt();
  if (is_finite || is_exempt) {
    parts_.optimizer.update_group(group,
                                  parts_.view.lr_factor(),
                                  {parts_.state.step, 0, true},
                                  is_exempt ? at::Tensor() : freed_->found_inf());
  }
  flat.release_grads();
}

void ParameterUpdate::run(bool is_wanted,
                          const at::Tensor& scale,
                          const FiniteCheck::FindOrigin& find_origin,
                          const std::function<void()>& on_final) {
  FiniteCheck& check = parts_.finite_check;
  StepValues& step = parts_.view.step();
  {
    const TraceSpan span("finish gradients");
    finish_gradients(scale);
    check.check_gradients(freed_.has_value() ? &*freed_ : nullptr);
    if (!parts_.events.rewrites_gradients()) {
      // Unclipped gradients show the origin.
      check.record(freed_.has_value() ? [this] { return freed_->origin(); } : find_origin);
    }
    clip();
  }
  step.is_applied = is_wanted && !check.is_skipped();
  parts_.events.fire(TENON_EVENT_BEFORE_OPTIMIZER_STEP);
  if (parts_.events.rewrites_gradients()) {
    check.check_gradients_again();
    check.record(find_origin);
    step.is_applied = is_wanted && !check.is_skipped();
  }
  on_final();
  const double factor = parts_.view.lr_factor();
  step.lr_factor = factor;
  if (step.is_applied) {
    apply(factor);
  }
  check.update_loss_scale(step.is_applied);
  if (has_state_buffers_ && (check.is_skipped() || check.found_inf().defined())) {
    parts_.parameters.restore_buffers(check.found_inf());
  }
  parts_.events.fire(TENON_EVENT_AFTER_OPTIMIZER_STEP);
  for (FlatGroup& group : parts_.parameters.groups()) {
    group.clear_grads();
  }
  if (parts_.tables != nullptr) {
    parts_.tables->end_step(parts_.state.step);
  }
  step.are_gradients_final = false;
}

void ParameterUpdate::finish_gradients(const at::Tensor& scale) {
  auto& groups = parts_.parameters.groups();
  if (parts_.tables != nullptr) {
    finish_table_gradients(scale);
  }
  share_has_grad();
  if (scale.defined()) {
    scale_grads(groups, scale);
  }
  if (parts_.loss_scale != nullptr) {
    scale_grads(groups, parts_.loss_scale->inverse());
  }
}

// Runs before ranks agree: non-finite gradients of a table on one rank make the step non-finite on
// all ranks.
void ParameterUpdate::finish_table_gradients(const at::Tensor& scale) {
  double factor = scale.defined() ? scale.item<double>() : 1;
  if (parts_.loss_scale != nullptr) {
    factor *= parts_.loss_scale->inverse().item<double>();
  }
  parts_.tables->finish_gradients(factor);
  if (!parts_.tables->non_finite().empty()) {
    parts_.finite_check.fail_tables();
  }
}

// If a parameter has a gradient on one rank, it has a gradient on all ranks. Losses that are
// non-finite on one rank count as non-finite on all. Ranks exchange both while the last gradients
// are reduced.
void ParameterUpdate::share_has_grad() {
  if (is_alone()) {
    parts_.sharded.finish_gradients();
  } else {
    std::vector<uint8_t> has_grad = parts_.sharded.has_grad();
    has_grad.push_back(parts_.finite_check.are_metrics_finite() ? 0 : 1);
    const auto gathering = parts_.ranks.tokens().start_gather(std::as_bytes(std::span(has_grad)),
                                                              "touched parameters");
    parts_.sharded.finish_gradients();
    const std::span<const std::byte> all = gathering->wait();
    for (size_t i = 0; i < all.size(); ++i) {
      has_grad[i % has_grad.size()] |= static_cast<uint8_t>(all[i]);
    }
    parts_.finite_check.set_metrics_finite(has_grad.back() == 0);
    has_grad.pop_back();
    parts_.sharded.set_has_grad(has_grad);
  }
  parts_.view.step().are_gradients_final = true;
  if (parts_.state.step == 1) {
    report_unused();
  }
}

void ParameterUpdate::report_unused() const {
  constexpr size_t kMostNames = 10;
  std::string names;
  size_t num_unused = 0;
  for (const FlatGroup& group : parts_.parameters.groups()) {
    for (const FlatEntry& entry : group.entries()) {
      if (entry.parameter.trainable && !entry.has_grad) {
        const std::string& name = parts_.parameters.graph().parameters[entry.parameter.id].name;
        names += ++num_unused > kMostNames ? "" : (names.empty() ? "'" : ", '") + name + "'";
      }
    }
  }
  if (num_unused > 0 && parts_.ranks.role().is_first()) {
    log_info(formatted("{} received no gradient in step 1 and will not be updated: {}{}",
                       counted(num_unused, "parameter"),
                       names,
                       num_unused > kMostNames ? ", ..." : ""));
  }
}

void ParameterUpdate::clip() {
  if (parts_.finite_check.is_skipped() || parts_.train.update_in_backward) {
    return;
  }
  if (parts_.train.clip_grad_norm.has_value()) {
    parts_.finite_check.clip_norm(*parts_.train.clip_grad_norm);
  }
  if (parts_.train.clip_grad_value.has_value()) {
    clip_grad_value(parts_.parameters.groups(), *parts_.train.clip_grad_value);
  }
}

void ParameterUpdate::apply(double factor) {
  const CallPlace place{parts_.state.step, 0, true};
  if (!parts_.train.update_in_backward) {
    parts_.optimizer.update(factor, place, parts_.finite_check.found_inf());
  }
  // Tables are on the CPU, so their update waits for the result of the check on the device.
  if (parts_.tables != nullptr && !parts_.finite_check.is_found_on_device()) {
    parts_.tables->update(factor, place);
  }
  parts_.sharded.publish();
  ++parts_.state.updates;
  if (parts_.averages != nullptr) {
    parts_.averages->update(parts_.state.step);
  }
  check_replicas();
}

void ParameterUpdate::check_replicas() {
  const int64_t every = parts_.check_replicas_every;
  if (every > 0 && parts_.state.step % static_cast<uint64_t>(every) == 0 && !is_alone()) {
    parts_.sharded.check_replicas();
  }
}

}  // namespace tenon
