// SPDX-License-Identifier: Apache-2.0
#include "host/hook/run_view.hpp"

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/hook/event_name.hpp"
#include "host/plugin/call_checks.hpp"
#include "host/plugin/hook_proxy.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/sized_struct.hpp"
#include "host/text/formatted.hpp"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <utility>

namespace tenon {
namespace {

// As in a hook's source.
const char* touch_name(uint32_t touch) {
  return touch == TENON_TOUCH_BATCH        ? "TENON_TOUCH_BATCH"
         : touch == TENON_TOUCH_PARAMETERS ? "TENON_TOUCH_PARAMETERS"
         : touch == TENON_TOUCH_GRADIENTS  ? "TENON_TOUCH_GRADIENTS"
         : touch == TENON_TOUCH_LR         ? "TENON_TOUCH_LR"
                                           : "TENON_TOUCH_LOSS";
}

constexpr size_t kMaxReduced = 4096;

template <class... Pointers>
RunView& view_of(tenon_run* run, const Pointers*... arguments) {
  if (run == nullptr || ((arguments == nullptr) || ...)) {
    throw Error("hook.bad_call", "a service of the run was called with a null argument");
  }
  return *reinterpret_cast<RunView*>(run);
}

tenon_status* request(tenon_run* run, uint32_t requests, const char* reason) {
  return guard(nullptr, [&] { view_of(run).request(requests, reason != nullptr ? reason : ""); });
}

tenon_status* get_metric(tenon_run* run, const char* name, double* out) {
  return guard(nullptr, [&] {
    const auto value = view_of(run, name, out).metric(name);
    if (!value.has_value()) {
      throw StatusError(
          TENON_NOT_FOUND, "hook.no_metric", std::string("no metric is named '") + name + "' yet");
    }
    *out = *value;
  });
}

tenon_status* get_scalar(tenon_run* run, const char* name, const tenon_tensor** out_ref) {
  return guard(nullptr, [&] {
    const at::Tensor* scalar = view_of(run, name, out_ref).scalar(name);
    if (scalar == nullptr || !scalar->defined()) {
      throw StatusError(TENON_NOT_FOUND,
                        "hook.no_metric",
                        std::string("no scalar is named '") + name + "' at this event");
    }
    *out_ref = borrow(*scalar);
  });
}

tenon_status* add_metric(tenon_run* run, const char* name, double value) {
  return guard(nullptr, [&] { view_of(run, name).add_metric(name, value); });
}

tenon_status* get_field(tenon_run* run, const char* name, tenon_tensor** out_ref) {
  return guard(nullptr, [&] {
    RunView& view = view_of(run, name, out_ref);
    at::Tensor* field = view.field(name);
    const bool exists = field != nullptr && field->defined();
    if (exists) {
      view.lend(*field, TENON_TOUCH_BATCH, name);
    }
    *out_ref = exists ? borrow_mutable(*field) : nullptr;
  });
}

tenon_status* set_lr_factor(tenon_run* run, double factor) {
  return guard(nullptr, [&] {
    RunView& view = view_of(run);
    if (!(factor >= 0) || std::isinf(factor)) {
      throw Error("hook.bad_call",
                  formatted("set_lr_factor was called with {}, expected a finite number from 0 on",
                            factor));
    }
    view.require_write(TENON_TOUCH_LR, "set_lr_factor");
    view.set_lr_factor(factor);
  });
}

tenon_status* get_num_parameters(tenon_run* run, size_t* out) {
  return guard(nullptr, [&] { *out = view_of(run, out).num_parameters(); });
}

tenon_status* get_parameter(tenon_run* run, size_t i, tenon_parameter_view* out) {
  return guard(nullptr, [&] {
    RunView& view = view_of(run, out);
    if (i >= view.num_parameters()) {
      throw Error("hook.bad_call",
                  formatted("parameter {} was requested, but the number of entries is {}",
                            i,
                            view.num_parameters()));
    }
    const ParameterView parameter = view.parameter(i);
    view.lend(*parameter.value, TENON_TOUCH_PARAMETERS, *parameter.name);
    if (parameter.grad != nullptr) {
      view.lend(*parameter.grad, TENON_TOUCH_GRADIENTS, *parameter.name);
    }
    write_sized(*out,
                {.struct_size = sizeof(tenon_parameter_view),
                 .name_ref = parameter.name->c_str(),
                 .value_ref = borrow(*parameter.value),
                 .grad_ref = parameter.grad != nullptr ? borrow(*parameter.grad) : nullptr,
                 .offset = parameter.offset,
                 .numel = parameter.numel});
  });
}

const char* run_dir(tenon_run* run) {
  return run != nullptr ? reinterpret_cast<RunView*>(run)->run_dir().c_str() : "";
}

RunView& view_of_group(tenon_run* run, size_t i, const void* out) {
  RunView& view = view_of(run, out);
  if (i >= view.num_lr_groups()) {
    throw Error("hook.bad_call",
                formatted("learning rate group {} was requested, but the number of entries is {}",
                          i,
                          view.num_lr_groups()));
  }
  return view;
}

tenon_status* get_num_lr_groups(tenon_run* run, size_t* out) {
  return guard(nullptr, [&] { *out = view_of(run, out).num_lr_groups(); });
}

tenon_status* get_lr_group(tenon_run* run, size_t i, tenon_lr_group* out) {
  return guard(nullptr, [&] {
    const LrGroupView group = view_of_group(run, i, out).lr_group(i);
    write_sized(*out,
                {.struct_size = sizeof(tenon_lr_group),
                 .name_ref = group.name->c_str(),
                 .match_ref = group.match->c_str(),
                 .base_rate = group.base_rate,
                 .rate = group.rate});
  });
}

tenon_status* get_lr_group_option(tenon_run* run, size_t i, const char* pointer, double* out) {
  return guard(nullptr, [&] {
    RunView& view = view_of_group(run, i, out);
    (void)view_of(run, pointer);
    const auto value = view.lr_group_option(i, pointer);
    if (!value.has_value()) {
      throw StatusError(
          TENON_NOT_FOUND,
          "options.not_found",
          formatted("the options of learning rate group {} have no number at '{}'", i, pointer));
    }
    *out = *value;
  });
}

tenon_status* roll_back(tenon_run* run, uint64_t first_bad_step, const char* reason) {
  return guard(nullptr,
               [&] { view_of(run).roll_back(first_bad_step, reason != nullptr ? reason : ""); });
}

bool has_declared(const RunView& view, uint32_t touch) {
  const HookProxy* const hook = view.call().hook;
  return hook != nullptr && (hook->info().reads & touch) != 0;
}

tenon_status* get_output(tenon_run* run, const char* name, const tenon_tensor** out_ref) {
  return guard(nullptr, [&] {
    RunView& view = view_of(run, name, out_ref);
    const at::Tensor* output = view.output(name);
    if (output == nullptr || !output->defined()) {
      throw StatusError(TENON_NOT_FOUND,
                        "hook.no_output",
                        formatted("the model has no output '{}' at this event{}",
                                  name,
                                  has_declared(view, TENON_TOUCH_OUTPUTS)
                                      ? ""
                                      : "; outputs that no loss and no metric reads need "
                                        "TENON_TOUCH_OUTPUTS in `reads` of the hook"));
    }
    *out_ref = borrow(*output);
  });
}

tenon_status* set_field(tenon_run* run, const char* name, const tenon_tensor* tensor) {
  return guard(nullptr, [&] {
    RunView& view = view_of(run, name, tensor);
    view.require_write(TENON_TOUCH_BATCH, "set_field");
    if (!tensor_of(tensor).defined()) {
      throw Error("hook.bad_call", "set_field was called with a handle that holds no tensor");
    }
    view.set_field(name, tensor_of(tensor));
  });
}

tenon_status* scale_loss(tenon_run* run, double factor) {
  return guard(nullptr, [&] {
    RunView& view = view_of(run);
    if (!std::isfinite(factor)) {
      throw Error("hook.bad_call",
                  formatted("scale_loss was called with {}, expected a finite number", factor));
    }
    view.require_write(TENON_TOUCH_LOSS, "scale_loss");
    view.scale_loss(factor);
  });
}

tenon_status* get_step_loss(tenon_run* run, double* out) {
  return guard(nullptr, [&] {
    RunView& view = view_of(run, out);
    if (!has_declared(view, TENON_TOUCH_LOSS)) {
      throw Error("hook.bad_call",
                  "get_step_loss was called by a hook that does not declare to read "
                  "TENON_TOUCH_LOSS; set it in `reads`");
    }
    const std::optional<double> loss = view.step_loss();
    if (!loss.has_value()) {
      throw StatusError(
          TENON_NOT_FOUND, "hook.no_metric", "the step has no finite loss at this event");
    }
    *out = *loss;
  });
}

tenon_status* all_reduce(tenon_run* run, double* io_values, size_t n, uint32_t reduction) {
  return guard(nullptr, [&] {
    RunView& view = view_of(run, io_values);
    const HookCall& call = view.call();
    if (call.hook == nullptr || !call.hook->info().uses_collectives) {
      throw Error("hook.bad_call",
                  "all_reduce was called by a hook that does not declare uses_collectives");
    }
    if (call.event == TENON_EVENT_ON_ERROR || call.event == TENON_EVENT_END) {
      throw Error("hook.bad_call",
                  formatted("all_reduce was called at {}, which other ranks may not reach",
                            event_name(call.event)));
    }
    if (n == 0 || n > kMaxReduced || reduction > TENON_REDUCE_MAX) {
      throw Error("hook.bad_call",
                  formatted("all_reduce was called with {} numbers and reduction {}, expected 1 to "
                            "{} and TENON_REDUCE_SUM or TENON_REDUCE_MAX",
                            n,
                            reduction,
                            kMaxReduced));
    }
    view.all_reduce({io_values, n}, reduction == TENON_REDUCE_SUM);
  });
}

}  // namespace

bool RunView::declares(uint32_t touch) const {
  return call_.hook == nullptr || (call_.hook->info().writes & touch) != 0;
}

void RunView::check_text(const TextRequest& /*request*/) {
  throw Error("generate.not_possible", "this run generates no text");
}

WrittenText RunView::generate_text(const TextRequest& request) {
  check_text(request);
  return {};
}

void RunView::require_write(uint32_t touch, const char* service) const {
  if (!declares(touch)) {
    throw Error("hook.undeclared_write",
                formatted("{} needs {} in `writes` of the hook", service, touch_name(touch)));
  }
}

void RunView::lend(const at::Tensor& tensor, uint32_t touch, const std::string& name) {
  if (call_.hook != nullptr && !declares(touch) && !tensor.is_inference()) {
    lent_.push_back({tensor, tensor._version(), content_if_checked(tensor), touch, name});
  }
}

void RunView::check_lent() {
  const HookCall call = std::exchange(call_, {});
  for (const ReadOnlyTensor& lent : std::exchange(lent_, {})) {
    if (lent.tensor._version() != lent.version || content_if_checked(lent.tensor) != lent.content) {
      throw Error("hook.undeclared_write",
                  formatted("{} wrote into \"{}\" without {} in its `writes`; declare it, so that "
                            "hooks are ordered and all ranks agree",
                            call.hook->instance().identity().describe(),
                            lent.name,
                            touch_name(lent.touch)));
    }
  }
}

const tenon_run_api* run_api() {
  static const tenon_run_api api = {sizeof(tenon_run_api),
                                    &request,
                                    &get_metric,
                                    &get_scalar,
                                    &add_metric,
                                    &get_field,
                                    &set_lr_factor,
                                    &get_num_parameters,
                                    &get_parameter,
                                    &run_dir,
                                    &get_num_lr_groups,
                                    &get_lr_group,
                                    &get_lr_group_option,
                                    &roll_back,
                                    &get_output,
                                    &set_field,
                                    &scale_loss,
                                    &get_step_loss,
                                    &all_reduce};
  return &api;
}

}  // namespace tenon
