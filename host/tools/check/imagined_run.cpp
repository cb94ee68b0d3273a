// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/imagined_run.hpp"

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/hook/event_name.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/sample_inputs.hpp"

#include <ATen/Functions.h>

#include <random>
#include <utility>

namespace tenon {
namespace {

constexpr uint64_t kTensorSeed = 5;
constexpr double kImaginedRate = 1e-3;
constexpr uint32_t kAllRequests = TENON_REQUEST_SKIP_UPDATE | TENON_REQUEST_EVALUATE |
                                  TENON_REQUEST_CHECKPOINT | TENON_REQUEST_STOP |
                                  TENON_REQUEST_ROLL_BACK;

std::vector<HookProxy> list_of(HookProxy hook) {
  std::vector<HookProxy> hooks;
  hooks.push_back(std::move(hook));
  return hooks;
}

}  // namespace

ImaginedRun::ImaginedRun(HookProxy hook, const ExecBase& exec, std::string run_dir, Served served)
    : run_dir_(std::move(run_dir)),
      served_(served),
      hooks_(list_of(std::move(hook)), 0, *this, exec) {
  hooks_.event().window_label = served == Served::kAll ? "2026-11-20/07" : "";
  scalars_ = {{"grad_norm", at::full({}, 1.5, at::kFloat)},
              {"applied", at::ones({}, at::kFloat)}};  // on all ranks
  if (served == Served::kBare) {
    return;
  }
  std::mt19937_64 generator(kTensorSeed);
  const auto random = [&](const std::vector<int64_t>& shape) {
    return random_tensor(shape, at::kFloat, -1, 1, generator);
  };
  batch_ = {{"x", random({4, 3})}, {"labels", at::zeros({4}, at::kLong)}};
  outputs_ = {{"logits", random({4, 2})}};
  scalars_["loss"] = at::full({}, 0.7, at::kFloat);
  parameters_ = {{"layer.weight", random({2, 3}), random({2, 3})},
                 {"layer.bias", random({2}), random({2})}};
  metrics_ = {{"loss", 0.7},
              {"lr", kImaginedRate},
              {"grad_norm", 1.5},
              {"loss_scale", 1},
              {"step_seconds", 0.01},
              {"samples_per_second", 400},
              {"tokens_per_second", 0},
              {"data_wait_seconds", 0.001}};
}

void ImaginedRun::fire(uint32_t event, const Watcher& watcher, const char* message) {
  fired_ |= TENON_EVENT_BIT(event);
  if (!hook().wants(event)) {
    return;
  }
  hooks_.event().message = message;
  if (watcher.before) {
    watcher.before(event);
  }
  try {
    hooks_.fire(event);
  } catch (const Error& error) {
    if (watcher.failed) {
      watcher.failed(event, error);
    }
  }
  hooks_.event().message = "";
  if (watcher.after) {
    watcher.after(event);
  }
}

void ImaginedRun::begin(const Watcher& watcher, const std::function<void()>& load) {
  hooks_.event().step = 0;
  fire(TENON_EVENT_BEFORE_INIT, watcher);
  fire(TENON_EVENT_AFTER_INIT, watcher);
  fire(TENON_EVENT_START, watcher);
  if (load) {
    load();
    fire(TENON_EVENT_AFTER_LOAD, watcher);
  }
  fire(TENON_EVENT_WINDOW_MODE, watcher);
  fire(TENON_EVENT_BEFORE_EPOCH, watcher);
  fire(TENON_EVENT_BEFORE_WINDOW, watcher);
}

// One microbatch of a training or an evaluation.
void ImaginedRun::microbatch(const Watcher& watcher) {
  const bool is_train = hooks_.event().is_train != 0;
  has_batch_ = true;
  fire(TENON_EVENT_AFTER_DATA, watcher);
  fire(TENON_EVENT_BEFORE_FORWARD, watcher);
  has_outputs_ = true;
  fire(TENON_EVENT_AFTER_FORWARD, watcher);
  fire(TENON_EVENT_BEFORE_LOSS, watcher);
  fire(TENON_EVENT_AFTER_LOSS, watcher);
  if (is_train) {
    fire(TENON_EVENT_BEFORE_BACKWARD, watcher);
    has_outputs_ = false;
    has_gradients_ = true;
    fire(TENON_EVENT_AFTER_BACKWARD, watcher);
  }
  has_outputs_ = false;
  has_batch_ = false;
}

void ImaginedRun::train_step(const Watcher& watcher) {
  tenon_event& event = hooks_.event();
  fire(TENON_EVENT_BEFORE_STEP, watcher);
  for (event.microbatch = 0; event.microbatch < 2; ++event.microbatch) {
    microbatch(watcher);
  }
  event.microbatch = 0;
  has_step_loss_ = true;
  fire(TENON_EVENT_BEFORE_OPTIMIZER_STEP, watcher);
  fire(TENON_EVENT_AFTER_OPTIMIZER_STEP, watcher);
  has_gradients_ = false;
  fire(TENON_EVENT_AFTER_STEP, watcher);
  has_step_loss_ = false;
}

void ImaginedRun::evaluate(const Watcher& watcher) {
  tenon_event& event = hooks_.event();
  fire(TENON_EVENT_BEFORE_EVALUATE, watcher);
  event.is_train = 0;
  microbatch(watcher);
  event.is_train = 1;
  if (served_ == Served::kAll) {
    metrics_["eval/loss"] = 0.6;
  }
  fire(TENON_EVENT_AFTER_EVALUATE, watcher);
}

void ImaginedRun::train(uint64_t first, uint64_t last, const Watcher& watcher) {
  for (uint64_t step = first; step <= last; ++step) {
    hooks_.event().step = step;
    train_step(watcher);
    if (step % 2 == 0) {
      fire(TENON_EVENT_UPDATE_SKIPPED, watcher);
    }
    evaluate(watcher);
    fire(TENON_EVENT_BEFORE_CHECKPOINT, watcher);
    fire(TENON_EVENT_AFTER_CHECKPOINT, watcher);
  }
}

void ImaginedRun::end(const Watcher& watcher) {
  fire(TENON_EVENT_AFTER_LOAD, watcher, "rolled back");
  fire(TENON_EVENT_OUT_OF_DATA, watcher);
  fire(TENON_EVENT_AFTER_WINDOW, watcher);
  fire(TENON_EVENT_AFTER_EPOCH, watcher);
  for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
    const uint64_t last = TENON_EVENT_BIT(TENON_EVENT_ON_ERROR) | TENON_EVENT_BIT(TENON_EVENT_END);
    if (((fired_ | last) & TENON_EVENT_BIT(event)) == 0) {
      fire(event, watcher);
    }
  }
  fire(TENON_EVENT_ON_ERROR, watcher, "[run.operator_failed] an imagined error");
  fire(TENON_EVENT_END, watcher, "failed");
}

ImaginedRun::Tensors ImaginedRun::copy_of_tensors() const {
  Tensors tensors;
  for (const auto& [name, field] : batch_) {
    tensors.batch.push_back(field.clone());
  }
  for (const Parameter& parameter : parameters_) {
    tensors.parameters.push_back(parameter.value.clone());
    tensors.gradients.push_back(parameter.grad.clone());
  }
  return tensors;
}

void ImaginedRun::request(uint32_t requests, const std::string& reason) {
  if (requests == 0 || (requests & ~kAllRequests) != 0) {
    throw Error("hook.bad_request", formatted("the request {} is unknown", requests));
  }
  note(formatted("step {}: request {} ({})", hooks_.event().step, requests, reason));
}

void ImaginedRun::roll_back(uint64_t first_bad_step, const std::string& reason) {
  if (first_bad_step == 0 || first_bad_step > hooks_.event().step) {
    throw Error("hook.bad_request",
                formatted("step {} is not finished, so that the run cannot roll back to before it",
                          first_bad_step));
  }
  note(formatted("step {}: roll back before {} ({})", hooks_.event().step, first_bad_step, reason));
}

std::optional<double> ImaginedRun::metric(std::string_view name) const {
  const auto found = metrics_.find(name);
  return found != metrics_.end() ? std::optional(found->second) : std::nullopt;
}

const at::Tensor* ImaginedRun::scalar(std::string_view name) {
  const auto found = scalars_.find(name);
  const bool exists = found != scalars_.end() && hooks_.event().step > 0;
  return exists ? &found->second : nullptr;
}

void ImaginedRun::add_metric(const std::string& name, double value) {
  check_plugin_metric(name);
  metrics_[name] = value;
}

at::Tensor* ImaginedRun::field(std::string_view name) {
  const auto found = batch_.find(name);
  return has_batch_ && found != batch_.end() ? &found->second : nullptr;
}

void ImaginedRun::set_lr_factor(double factor) {
  note(formatted("step {}: factor {}", hooks_.event().step, factor));
}

ParameterView ImaginedRun::parameter(size_t i) {
  const Parameter& parameter = parameters_.at(i);
  return {.name = &parameter.name,
          .value = &parameter.value,
          .grad = has_gradients_ ? &parameter.grad : nullptr,
          .offset = 0,
          .numel = parameter.value.numel()};
}

LrGroupView ImaginedRun::lr_group(size_t /*i*/) {
  static const std::string name = "default";
  static const std::string match;
  return {.name = &name, .match = &match, .base_rate = kImaginedRate, .rate = kImaginedRate};
}

std::optional<double> ImaginedRun::lr_group_option(size_t /*i*/, const std::string& pointer) const {
  return pointer == "/lr" ? std::optional(kImaginedRate) : std::nullopt;
}

const at::Tensor* ImaginedRun::output(std::string_view name) {
  const auto found = outputs_.find(name);
  return has_outputs_ && found != outputs_.end() ? &found->second : nullptr;
}

void ImaginedRun::set_field(const std::string& name, const at::Tensor& tensor) {
  at::Tensor* const old = field(name);
  if (old == nullptr) {
    throw StatusError(TENON_NOT_FOUND, "hook.no_field", "the batch has no field '" + name + "'");
  }
  if (tensor.scalar_type() != old->scalar_type() || tensor.dim() != old->dim() ||
      tensor.size(0) != old->size(0) || hooks_.event().id != TENON_EVENT_AFTER_DATA) {
    throw Error("hook.bad_call",
                "set_field was called with another dtype, another shape or at another event");
  }
  *old = tensor;
}

void ImaginedRun::scale_loss(double factor) {
  note(formatted("step {}: loss times {}", hooks_.event().step, factor));
}

std::optional<double> ImaginedRun::step_loss() const {
  return has_step_loss_ && served_ == Served::kAll ? std::optional(0.7) : std::nullopt;
}

void ImaginedRun::check_text(const TextRequest& /*request*/) {}

WrittenText ImaginedRun::generate_text(const TextRequest& request) {
  note(formatted("step {}: text of '{}'", hooks_.event().step, request.prompt));
  return {.text = "an imagined text",
          .num_prompt_tokens = request.prompt.size(),
          .num_tokens = 16,
          .finish = TENON_TEXT_END_TOKEN};
}

// A run of one rank: each number is its own sum and maximum.
void ImaginedRun::all_reduce(std::span<double> /*values*/, bool /*is_sum*/) {}

}  // namespace tenon
