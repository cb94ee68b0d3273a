// SPDX-License-Identifier: Apache-2.0
#include "host/train/hook_view.hpp"

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/hook/event_name.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/optimizer_groups.hpp"

#include <ATen/TensorOperators.h>

namespace tenon {

void HookView::request(uint32_t requests, const std::string& reason) {
  requests_.request(requests, reason);
  constexpr std::pair<uint32_t, const char*> kNames[] = {{TENON_REQUEST_SKIP_UPDATE, "skip_update"},
                                                         {TENON_REQUEST_CHECKPOINT, "checkpoint"},
                                                         {TENON_REQUEST_EVALUATE, "evaluate"},
                                                         {TENON_REQUEST_STOP, "stop"}};
  const HookProxy* const hook = call().hook;
  for (const auto& [bit, name] : kNames) {
    if ((requests & bit) != 0) {
      run_.report.journal.add(
          CommandReceived{name, hook != nullptr ? hook->instance().type() : "a hook"});
    }
  }
}

void HookView::roll_back(uint64_t first_bad_step, const std::string& reason) {
  requests_.request_roll_back(first_bad_step, reason);
}

std::optional<double> HookView::metric(std::string_view name) const {
  return run_.report.metrics.last(name);
}

const at::Tensor* HookView::scalar(std::string_view name) {
  if (name == "loss") {
    loss_ = step_.microbatches != nullptr ? mean_loss(*step_.microbatches, run_.model.losses)
                                          : at::Tensor();
    return &loss_;
  }
  if (name == "grad_norm") {
    grad_norm_ = gradients_.norm();
    return &grad_norm_;
  }
  if (name == "applied") {
    applied_ = finite_check_.applied(step_.is_applied);
    return &applied_;
  }
  return nullptr;
}

void HookView::add_metric(const std::string& name, double value) {
  check_plugin_metric(name);
  run_.report.metrics.set(name, value);
}

at::Tensor* HookView::field(std::string_view name) {
  return step_.batch != nullptr ? const_cast<at::Tensor*>(step_.batch->find(name)) : nullptr;
}

void HookView::set_lr_factor(double factor) {
  rate_.set_hook_factor(factor);
}

size_t HookView::num_parameters() const {
  return run_.model.parameters.graph().num_trained_parameters();
}

ParameterView HookView::parameter(size_t i) {
  const auto& position = run_.model.parameters.position(static_cast<uint32_t>(i));
  const FlatGroup& group = run_.model.parameters.groups()[position.group];
  const FlatEntry& entry = group.entries()[position.entry];
  const bool is_whole = !whole_.values.empty();
  parameter_values_ = {is_whole ? whole_.values[position.group][position.entry]
                                : group.data_view(position.entry)};
  const bool has_grad = is_whole ? !whole_.grads[position.group].empty()
                                 : step_.are_gradients_final || run_.model.sharded.is_idle();
  if (position.trainable && entry.has_grad && has_grad && !group.sharing().frees_gradients) {
    parameter_values_.push_back(is_whole ? whole_.grads[position.group][position.entry]
                                         : group.grad_view(position.entry));
  }
  ParameterView view;
  view.name = &run_.model.parameters.graph().parameters[i].name;
  view.value = parameter_values_.data();
  view.grad = parameter_values_.size() > 1 ? &parameter_values_[1] : nullptr;
  view.offset = is_whole ? 0 : group.part(position.entry).piece.first();
  view.numel = is_whole ? parameter_values_.front().numel() : entry.numel;
  return view;
}

const std::string& HookView::run_dir() const {
  return run_.report.run_dir;
}

size_t HookView::num_lr_groups() const {
  return run_.model.optimizer.partitions().size();
}

LrGroupView HookView::lr_group(size_t i) {
  const OptimizedPartition& partition = run_.model.optimizer.partitions()[i];
  return {.name = &partition.name,
          .match = &partition.match,
          .base_rate = partition.lr,
          .rate = partition.lr * step_.lr_factor.value_or(lr_factor())};
}

const at::Tensor* HookView::output(std::string_view name) {
  switch (call().event) {
    case TENON_EVENT_AFTER_FORWARD:
    case TENON_EVENT_BEFORE_LOSS:
    case TENON_EVENT_AFTER_LOSS:
    case TENON_EVENT_BEFORE_BACKWARD: {
      const std::optional<uint32_t> value = run_.model.parameters.graph().find_output(name);
      return value.has_value() ? &step_.state->whole_value(*value) : nullptr;
    }
    default:
      return nullptr;
  }
}

void HookView::set_field(const std::string& name, const at::Tensor& tensor) {
  if (call().event != TENON_EVENT_AFTER_DATA || step_.batch == nullptr) {
    throw Error("hook.bad_call", "set_field is possible only at after_data");
  }
  Batch& batch = *step_.batch;
  const std::optional<size_t> field = find_field(*batch.schema, name);
  if (!field.has_value() || !batch.fields[*field].defined()) {
    throw StatusError(TENON_NOT_FOUND, "hook.no_field", "the batch has no field '" + name + "'");
  }
  const at::Tensor& old = batch.fields[*field];
  if (tensor.scalar_type() != old.scalar_type() || tensor.device() != old.device() ||
      tensor.dim() != old.dim() || (old.dim() > 0 && tensor.size(0) != old.size(0))) {
    throw Error(
        "hook.bad_call",
        formatted("set_field was called with {} {} on {} for the field '{}', which is {} {} "
                  "on {}; keep dtype, device, number of axes and first axis",
                  c10::toString(tensor.scalar_type()),
                  shape_text(tensor.sizes()),
                  tensor.device().str(),
                  name,
                  c10::toString(old.scalar_type()),
                  shape_text(old.sizes()),
                  old.device().str()));
  }
  batch.fields[*field] = tensor.detach();
}

void HookView::scale_loss(double factor) {
  const uint32_t event = call().event;
  const bool is_before = event == TENON_EVENT_BEFORE_LOSS;
  if (step_.microbatch == nullptr ||
      !(is_before || event == TENON_EVENT_AFTER_LOSS || event == TENON_EVENT_BEFORE_BACKWARD)) {
    throw Error("hook.bad_call",
                "scale_loss is possible only in training, at before_loss, after_loss and "
                "before_backward");
  }
  if (step_.is_loss_chunked && !is_before) {
    throw StatusError(TENON_UNSUPPORTED,
                      "hook.bad_call",
                      "scale_loss is possible only at before_loss if the recipe sets loss_chunk: "
                      "gradients are computed along with the loss");
  }
  for (at::Tensor& seed : step_.microbatch->seeds) {
    seed = seed * factor;
  }
  step_.microbatch->aux_scale *= factor;
}

void HookView::all_reduce(std::span<double> values, bool is_sum) {
  run_.ranks.groups.tokens().all_reduce(
      values, is_sum ? Reduce::kSum : Reduce::kMax, "numbers of a hook");
}

void HookView::check_text(const TextRequest& request) {
  if (run_.report.texts == nullptr) {
    RunView::check_text(request);
  }
  run_.report.texts->check(request);
}

WrittenText HookView::generate_text(const TextRequest& request) {
  const uint32_t event = call().event;
  switch (event) {
    case TENON_EVENT_AFTER_LOAD:
    case TENON_EVENT_AFTER_STEP:
    case TENON_EVENT_AFTER_EVALUATE:
    case TENON_EVENT_AFTER_WINDOW:
    case TENON_EVENT_AFTER_EPOCH:
      break;
    case TENON_EVENT_END:
      if (!has_failed_) {
        break;
      }
      throw Error("hook.bad_call", "a text was requested at end, but the run has failed");
    default:
      throw Error("hook.bad_call",
                  formatted("a text was requested at {}, where parameters may be incomplete; "
                            "request it at after_load, after_step, after_evaluate, after_window, "
                            "after_epoch or end",
                            event_name(event)));
  }
  if (run_.report.texts == nullptr) {
    return RunView::generate_text(request);
  }
  const auto began = std::chrono::steady_clock::now();
  WrittenText written = run_.report.texts->generate(request, state_.step);
  // An evaluation is a pause already, with all of its events.
  if (event == TENON_EVENT_AFTER_STEP) {
    log_.add_pause(std::chrono::steady_clock::now() - began);
  }
  return written;
}

std::optional<double> HookView::lr_group_option(size_t i, const std::string& pointer) const {
  return number_option(run_.model.optimizer.partitions()[i].options, pointer);
}

}  // namespace tenon
