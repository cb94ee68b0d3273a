// SPDX-License-Identifier: Apache-2.0
#include "host/hook/run_view.hpp"

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/sized_struct.hpp"
#include "host/text/formatted.hpp"

#include <cmath>

namespace tenon {
namespace {

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
    at::Tensor* field = view_of(run, name, out_ref).field(name);
    *out_ref = field != nullptr && field->defined() ? borrow_mutable(*field) : nullptr;
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

}  // namespace

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
                                    &roll_back};
  return &api;
}

}  // namespace tenon
