// SPDX-License-Identifier: Apache-2.0
#include "host/train/finite_check.hpp"

#include "host/text/formatted.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <vector>

namespace tenon {
namespace {

at::Tensor sum_of(const at::Tensor& so_far, const at::Tensor& more) {
  return so_far.defined() ? so_far + more : more;
}

at::Tensor unless_found(const at::Tensor& found, const at::Tensor& value) {
  return found.defined() ? at::where(found.eq(1), at::zeros_like(value), value) : value;
}

}  // namespace

FiniteCheck::FiniteCheck(RunServices& run, RunState& state, const GradientStatistics& gradients)
    : run_(run), state_(state), gradients_(gradients), guard_(run.recipe().train.non_finite) {}

void FiniteCheck::check() {
  is_finite_ = gradients_.is_finite();
  if (gradients_.is_on_cpu()) {
    return;
  }
  found_ = gradients_.non_finite();
  found_inf_ = guard_.is_exempt() ? at::Tensor() : found_;
  if (run_.model.loss_scale.has_value()) {
    exempt_overflow();
  }
}

// If gradients overflow under a loss scale, the update is skipped under any policy, and the scale
// is lowered. The scale finds its level this way. The overflow is reported only if the losses were
// already non-finite, or if the scale is too low (at most 1) to be the cause.
void FiniteCheck::exempt_overflow() {
  const at::Tensor& overflow = gradients_.overflow();
  at::Tensor exempt = overflow * (run_.model.loss_scale->scale() > 1);
  if (const at::Tensor are_finite = gradients_.losses_finite(); are_finite.defined()) {
    exempt = exempt * are_finite;
  }
  found_inf_ = guard_.is_exempt() ? overflow : found_;
  found_ = found_ * (1 - exempt);
}

void FiniteCheck::record(const FindOrigin& find_origin) {
  const uint64_t step = state_.step;
  const auto origin = [&] { return origin_among_ranks(find_origin()); };
  if (gradients_.is_on_cpu()) {
    guard_.record(step, is_finite_, origin);
  } else if (guard_.is_sync_due()) {  // waits, since the origin can be found now
    sync();
    is_finite_ = found_.item<float>() == 0;
    guard_.record(step, is_finite_, origin);
  } else {
    guard_.record_later(step, found_, later_origin());
  }
}

// Finds the origin after the step is over, from the norms of its gradients.
UpdateGuard::Origin FiniteCheck::later_origin() {
  std::vector<uint32_t> parameters;
  for (const FlatGroup& group : run_.model.parameters.groups()) {
    for (const FlatEntry& entry : group.entries()) {
      if (entry.has_grad) {
        parameters.push_back(entry.parameter.id);
      }
    }
  }
  return [this, parameters = std::move(parameters), norms = gradients_.device_norms().by_entry] {
    return origin_among_ranks(
        non_finite_gradient(run_.model.parameters.graph(), parameters, norms));
  };
}

// Returns the origin from the rank nearest to the cause, since gradients are non-finite on all.
std::string FiniteCheck::origin_among_ranks(const NonFiniteOrigin& mine) {
  if (run_.is_alone()) {
    return mine.text;
  }
  const auto all = run_.ranks.groups.all().gather_texts(
      formatted("{}{}", static_cast<int>(mine.distance), mine.text), "where it arose");
  const auto nearest =
      std::ranges::min_element(all, {}, [](const std::string& text) { return text.front(); });
  return formatted("rank {}: {}", nearest - all.begin(), nearest->substr(1));
}

void FiniteCheck::update_loss_scale(bool is_applied) {
  if (!run_.model.loss_scale.has_value()) {
    return;
  }
  run_.model.loss_scale->update(gradients_.overflow());
  if (is_applied) {  // counts overflows that the device skipped and the guard exempts
    const at::Tensor skipped = (found_inf_ * (1 - found_)).to(at::kDouble);
    scaler_skips_ = sum_of(scaler_skips_, skipped);
  }
}

bool FiniteCheck::is_found_on_device() const {
  return found_inf_.defined() && found_inf_.item<float>() != 0;
}

// If only the loss scale skipped the step, its losses are valid and count.
at::Tensor FiniteCheck::bad_losses() const {
  return guard_.is_exempt() || gradients_.is_on_cpu() ? at::Tensor() : found_;
}

// The book adds up numbers of ranks.
void FiniteCheck::record_norm(MetricBook& metrics) const {
  if (run_.role().index_in(RankSet::kSums).index != 0) {
    return;
  }
  const at::Tensor norm = gradients_.norm();
  if (gradients_.is_on_cpu()) {
    metrics.add("grad_norm", norm.item<double>(), 1);
  } else {
    metrics.add_tensor(
        "grad_norm", unless_found(found_inf_, norm), unless_found(found_inf_, at::ones_like(norm)));
  }
}

at::Tensor FiniteCheck::applied(bool is_applied) const {
  const at::Tensor applied =
      is_applied
          ? at::scalar_tensor(
                1.0, at::TensorOptions().dtype(at::kDouble).device(run_.model.parameters.device()))
          : at::scalar_tensor(0.0, at::kDouble);
  return found_inf_.defined() ? (1 - found_inf_) * applied : applied;
}

void FiniteCheck::sync() {
  const size_t num_found = guard_.sync();
  if (num_found > 0 && !guard_.is_exempt()) {
    state_.updates -= num_found;
    has_late_skips_ = true;
  }
}

void FiniteCheck::sync_loss_scale(MetricBook& metrics) {
  if (!run_.model.loss_scale.has_value()) {
    return;
  }
  const at::Tensor skips =
      scaler_skips_.defined() ? scaler_skips_ : at::scalar_tensor(0.0, at::kDouble);
  const at::Tensor scale = run_.model.loss_scale->scale().to(at::kDouble);
  const at::Tensor values = at::stack({scale, skips.to(scale.device())}).to(at::kCPU);
  scaler_skips_.reset();
  metrics.set("loss_scale", values[0].item<double>());
  const auto num_skips = static_cast<uint64_t>(values[1].item<double>());
  state_.updates -= num_skips;
  has_late_skips_ = has_late_skips_ || num_skips > 0;
}

}  // namespace tenon
