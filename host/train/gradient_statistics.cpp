// SPDX-License-Identifier: Apache-2.0
#include "host/train/gradient_statistics.hpp"

#include <tenon/hook.h>

#include "host/hook/hook_list.hpp"
#include "host/optim/clip.hpp"
#include "host/tensor/exact_words.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <limits>

namespace tenon {
namespace {

// Shares whether losses are finite, and norms instead of sums of squares: the last bits depend on
// the ranks.
void gather_norms(Group& group, at::Device device, at::Tensor& norm, at::Tensor& losses) {
  const at::Tensor own = norm.to(device);
  const at::Tensor mine = at::stack({own, losses.defined() ? losses : at::zeros_like(own)});
  at::Tensor all = at::empty({2 * group.size()}, mine.options());
  group.all_gather(all, mine, "norm of the gradients")->wait();
  const at::Tensor of_ranks = all.view({-1, 2});
  norm = at::linalg_vector_norm(of_ranks.select(1, 0), 2);
  losses = of_ranks.select(1, 1).sum();
}

at::Tensor flag_unless_finite(const at::Tensor& value) {
  return at::isfinite(value).logical_not().to(at::kFloat);
}

}  // namespace

GradientStatistics::GradientStatistics(RunServices& run)
    : run_(run),
      are_rewritten_(any_writes(
          run.plan.observers.hooks, TENON_EVENT_BEFORE_OPTIMIZER_STEP, TENON_TOUCH_GRADIENTS)) {}

void GradientStatistics::begin_step() {
  are_losses_finite_ = true;
  losses_ = at::Tensor();
}

bool GradientStatistics::add_loss(const at::Tensor& sum, const at::Tensor& count) {
  if (is_on_cpu()) {
    const bool is_finite = std::isfinite(sum.item<double>()) && std::isfinite(count.item<double>());
    are_losses_finite_ = are_losses_finite_ && is_finite;
    return is_finite;
  }
  // A finite value times 0 is 0; a non-finite value times 0 is NaN.
  const at::Tensor loss = (sum.to(at::kDouble) + count.to(sum.device())) * 0.0;
  losses_ = losses_.defined() ? losses_ + loss : loss;
  return true;
}

void GradientStatistics::fail_tables() {
  are_losses_finite_ = false;
  if (!is_on_cpu()) {
    losses_ =
        at::full({},
                 std::numeric_limits<double>::quiet_NaN(),
                 at::TensorOptions().dtype(at::kDouble).device(run_.model.parameters.device()));
  }
}

void GradientStatistics::measure(const FreedGradients* freed) {
  if (is_on_cpu()) {
    share_norm(freed);
    is_finite_ = std::isfinite(*norm_) && are_losses_finite_;
    return;
  }
  device_norms_ =
      freed != nullptr ? freed->device_norms() : device_grad_norms(run_.model.parameters.groups());
  if (!run_.is_alone()) {
    share_on_device();
  }
  const at::Tensor& norm = device_norms_.all;
  non_finite_ = flag_unless_finite(losses_.defined() ? norm + losses_ : norm);
  if (run_.model.loss_scale.has_value()) {
    overflow_ = flag_unless_finite(norm);
  }
}

void GradientStatistics::measure_again() {
  const std::optional<double> norm = norm_;
  const at::Tensor device_norm = device_norms_.all;
  measure();
  norm_ = norm;
  device_norms_.all = device_norm;
}

// Each rank has the sum of squares that it counts. If all ranks have the same gradients, they
// exchange nothing: the bits are the same.
void GradientStatistics::share_norm(const FreedGradients* freed) {
  const auto& groups = run_.model.parameters.groups();
  if (freed != nullptr) {
    norm_ = freed->norm();
    return;
  }
  if (run_.is_alone() || (run_.model.sharded.is_replicated() && !are_rewritten_)) {
    norm_ = grad_norm(groups, NormOf::kAll);
    return;
  }
  norm_ = norm_of_squares([&](SquareScale scale) {
    ExactSum sum = grad_squares(groups, NormOf::kCounted, scale);
    run_.ranks.groups.all().all_reduce(sum.words(), Reduce::kSum, "norm of the gradients");
    return sum;
  });
}

// Like share_norm(), but does not wait for the device, and also shares whether losses are finite.
void GradientStatistics::share_on_device() {
  const at::Device device = run_.model.parameters.device();
  Group& ranks = run_.ranks.groups.all_on_device();
  if (!device_norms_.squares.defined()) {
    gather_norms(ranks, device, device_norms_.all, losses_);
    return;
  }
  const at::Tensor bad_losses = losses_.defined()
                                    ? at::isfinite(losses_).logical_not().to(at::kLong).view({1})
                                    : at::zeros({1}, at::TensorOptions().dtype(at::kLong));
  at::Tensor sums = at::cat({device_norms_.squares.to(device), bad_losses.to(device)});
  ranks.all_reduce(sums, "norm of the gradients")->wait();
  device_norms_ = norms_of(sums.narrow(0, 0, kExactWords).contiguous(), device_norms_.by_entry);
  losses_ = at::zeros({}, sums.options().dtype(at::kDouble))
                .masked_fill(sums[kExactWords].gt(0), std::numeric_limits<double>::quiet_NaN());
}

at::Tensor GradientStatistics::losses_finite() const {
  return losses_.defined() ? at::isfinite(losses_) : at::Tensor();
}

at::Tensor GradientStatistics::norm() const {
  return norm_.has_value() ? at::scalar_tensor(*norm_, at::kDouble) : device_norms_.all;
}

void GradientStatistics::clip(double max_norm) {
  auto& groups = run_.model.parameters.groups();
  if (is_on_cpu()) {
    clip_grad_norm(groups, *norm_, max_norm);
  } else {
    clip_grad_norm(groups, device_norms_.all, max_norm);
  }
}

}  // namespace tenon
