// SPDX-License-Identifier: Apache-2.0
#include "host/train/finite_check.hpp"

#include "host/optim/clip.hpp"
#include "host/tensor/exact_words.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tenon {
namespace {

at::Tensor sum_of(const at::Tensor& so_far, const at::Tensor& more) {
  return so_far.defined() ? so_far + more : more;
}

at::Tensor unless_found(const at::Tensor& found, const at::Tensor& value) {
  return found.defined() ? at::where(found.eq(1), at::zeros_like(value), value) : value;
}

// Shares whether losses are finite, and norms instead of sums of squares: the last bits depend on
// the ranks.
void gather_norms(Group& group, at::Device device, at::Tensor& norm, at::Tensor& metrics) {
  const at::Tensor own = norm.to(device);
  const at::Tensor mine = at::stack({own, metrics.defined() ? metrics : at::zeros_like(own)});
  at::Tensor all = at::empty({2 * group.size()}, mine.options());
  group.all_gather(all, mine, "norm of the gradients")->wait();
  const at::Tensor of_ranks = all.view({-1, 2});
  norm = at::linalg_vector_norm(of_ranks.select(1, 0), 2);
  metrics = of_ranks.select(1, 1).sum();
}

}  // namespace

FiniteCheck::FiniteCheck(Parts parts, const NonFiniteRecipe& recipe)
    : parts_(parts), guard_(recipe) {}

void FiniteCheck::begin_step() {
  are_metrics_finite_ = true;
  metrics_ = at::Tensor();
}

bool FiniteCheck::check_metric(const at::Tensor& sum, const at::Tensor& count) {
  if (parts_.is_on_cpu) {
    const bool is_finite = std::isfinite(sum.item<double>()) && std::isfinite(count.item<double>());
    are_metrics_finite_ = are_metrics_finite_ && is_finite;
    return is_finite;
  }
  // A finite value times 0 is 0; a non-finite value times 0 is NaN.
  metrics_ = sum_of(metrics_, (sum.to(at::kDouble) + count.to(sum.device())) * 0.0);
  return true;
}

void FiniteCheck::fail_tables() {
  are_metrics_finite_ = false;
  if (!parts_.is_on_cpu) {
    metrics_ =
        sum_of(metrics_,
               at::full({},
                        std::numeric_limits<double>::quiet_NaN(),
                        at::TensorOptions().dtype(at::kDouble).device(parts_.parameters.device())));
  }
}

void FiniteCheck::check_gradients(const FreedGradients* freed) {
  if (parts_.is_on_cpu) {
    share_norm(freed);
    is_finite_ = std::isfinite(*norm_) && are_metrics_finite_;
    return;
  }
  is_finite_ = true;
  device_norms_ =
      freed != nullptr ? freed->device_norms() : device_grad_norms(parts_.parameters.groups());
  if (!is_alone()) {
    share_device_check();
  }
  const at::Tensor& norm = device_norms_.all;
  found_ = at::isfinite(metrics_.defined() ? norm + metrics_ : norm).logical_not().to(at::kFloat);
  found_inf_ = guard_.is_exempt() ? at::Tensor() : found_;
  if (parts_.loss_scale != nullptr) {
    exempt_overflow(norm);
  }
}

// Each rank has the sum of squares that it counts. If all ranks have the same gradients, they
// exchange nothing: the bits are the same.
void FiniteCheck::share_norm(const FreedGradients* freed) {
  const auto& groups = parts_.parameters.groups();
  if (freed != nullptr) {
    norm_ = freed->norm();
    return;
  }
  if (is_alone() || (parts_.sharded.is_replicated() && !parts_.are_gradients_rewritten)) {
    norm_ = grad_norm(groups, NormOf::kAll);
    return;
  }
  norm_ = norm_of_squares([&](SquareScale scale) {
    ExactSum sum = grad_squares(groups, NormOf::kCounted, scale);
    parts_.ranks.all().all_reduce(sum.words(), Reduce::kSum, "norm of the gradients");
    return sum;
  });
}

// Like share_norm(), but does not wait for the device, and also shares whether losses are finite.
void FiniteCheck::share_device_check() {
  const at::Device device = parts_.parameters.device();
  if (!device_norms_.squares.defined()) {
    gather_norms(parts_.ranks.all_on_device(), device, device_norms_.all, metrics_);
    return;
  }
  const at::Tensor bad_losses = metrics_.defined()
                                    ? at::isfinite(metrics_).logical_not().to(at::kLong).view({1})
                                    : at::zeros({1}, at::TensorOptions().dtype(at::kLong));
  at::Tensor sums = at::cat({device_norms_.squares.to(device), bad_losses.to(device)});
  parts_.ranks.all_on_device().all_reduce(sums, "norm of the gradients")->wait();
  device_norms_ = norms_of(sums.narrow(0, 0, kExactWords).contiguous(), device_norms_.by_entry);
  metrics_ = at::zeros({}, sums.options().dtype(at::kDouble))
                 .masked_fill(sums[kExactWords].gt(0), std::numeric_limits<double>::quiet_NaN());
}

// If gradients overflow under a loss scale, the update is skipped under any policy, and the scale
// is lowered. The scale finds its level this way. The overflow is reported only if the losses were
// already non-finite, or if the scale is too low (at most 1) to be the cause.
void FiniteCheck::exempt_overflow(const at::Tensor& norm) {
  overflow_ = at::isfinite(norm).logical_not().to(at::kFloat);
  at::Tensor exempt = overflow_ * (parts_.loss_scale->scale() > 1);
  if (metrics_.defined()) {
    exempt = exempt * at::isfinite(metrics_);
  }
  found_inf_ = guard_.is_exempt() ? overflow_ : found_;
  found_ = found_ * (1 - exempt);
}

void FiniteCheck::check_gradients_again() {
  const std::optional<double> norm = norm_;
  const at::Tensor device_norm = device_norms_.all;
  check_gradients();
  norm_ = norm;
  device_norms_.all = device_norm;
}

void FiniteCheck::record(const FindOrigin& find_origin) {
  const uint64_t step = parts_.state.step;
  const auto origin = [&] { return origin_among_ranks(find_origin()); };
  if (parts_.is_on_cpu) {
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
  for (const FlatGroup& group : parts_.parameters.groups()) {
    for (const FlatEntry& entry : group.entries()) {
      if (entry.has_grad) {
        parameters.push_back(entry.parameter.id);
      }
    }
  }
  return [this, parameters = std::move(parameters), norms = device_norms_.by_entry] {
    return origin_among_ranks(non_finite_gradient(parts_.parameters.graph(), parameters, norms));
  };
}

// Returns the origin from the rank nearest to the cause, since gradients are non-finite on all.
std::string FiniteCheck::origin_among_ranks(const NonFiniteOrigin& mine) {
  if (is_alone()) {
    return mine.text;
  }
  const auto all = parts_.ranks.all().gather_texts(
      formatted("{}{}", static_cast<int>(mine.distance), mine.text), "where it arose");
  const auto nearest =
      std::ranges::min_element(all, {}, [](const std::string& text) { return text.front(); });
  return formatted("rank {}: {}", nearest - all.begin(), nearest->substr(1));
}

void FiniteCheck::update_loss_scale(bool is_applied) {
  if (parts_.loss_scale == nullptr) {
    return;
  }
  parts_.loss_scale->update(overflow_);
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
  return guard_.is_exempt() || parts_.is_on_cpu ? at::Tensor() : found_;
}

at::Tensor FiniteCheck::norm() const {
  return norm_.has_value() ? at::scalar_tensor(*norm_, at::kDouble) : device_norms_.all;
}

void FiniteCheck::clip_norm(double max_norm) {
  auto& groups = parts_.parameters.groups();
  if (parts_.is_on_cpu) {
    clip_grad_norm(groups, *norm_, max_norm);
  } else {
    clip_grad_norm(groups, device_norms_.all, max_norm);
  }
}

void FiniteCheck::record_norm(MetricBook& metrics) const {
  if (!parts_.ranks.role().is_first()) {
    return;
  }
  if (parts_.is_on_cpu) {
    metrics.add("grad_norm", *norm_, 1);
  } else {
    metrics.add_tensor("grad_norm",
                       unless_found(found_inf_, device_norms_.all),
                       unless_found(found_inf_, at::ones_like(device_norms_.all)));
  }
}

at::Tensor FiniteCheck::applied(bool is_applied) const {
  const at::Tensor applied =
      is_applied
          ? at::scalar_tensor(
                1.0, at::TensorOptions().dtype(at::kDouble).device(parts_.parameters.device()))
          : at::scalar_tensor(0.0, at::kDouble);
  return found_inf_.defined() ? (1 - found_inf_) * applied : applied;
}

void FiniteCheck::sync() {
  const size_t num_found = guard_.sync();
  if (num_found > 0 && !guard_.is_exempt()) {
    parts_.state.updates -= num_found;
    has_late_skips_ = true;
  }
}

void FiniteCheck::sync_loss_scale(MetricBook& metrics) {
  if (parts_.loss_scale == nullptr) {
    return;
  }
  const at::Tensor skips =
      scaler_skips_.defined() ? scaler_skips_ : at::scalar_tensor(0.0, at::kDouble);
  const at::Tensor scale = parts_.loss_scale->scale().to(at::kDouble);
  const at::Tensor values = at::stack({scale, skips.to(scale.device())}).to(at::kCPU);
  scaler_skips_.reset();
  metrics.set("loss_scale", values[0].item<double>());
  const auto num_skips = static_cast<uint64_t>(values[1].item<double>());
  parts_.state.updates -= num_skips;
  has_late_skips_ = has_late_skips_ || num_skips > 0;
}

}  // namespace tenon
