// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/fake_run.hpp"

#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"

#include <utility>

#include "tests/plugins/made_component.hpp"

namespace tenon {

FakeRun::FakeRun(std::string run_dir) : run_dir_(std::move(run_dir)), api_{} {
  api_.struct_size = sizeof api_;
  api_.request = [](tenon_run* run, uint32_t requests, const char* reason) -> tenon_status* {
    of(run).requests.push_back({requests, reason});
    return nullptr;
  };
  api_.roll_back =
      [](tenon_run* run, uint64_t first_bad_step, const char* reason) -> tenon_status* {
    of(run).requests.push_back({TENON_REQUEST_ROLL_BACK, reason, first_bad_step});
    return nullptr;
  };
  api_.get_scalar =
      [](tenon_run* run, const char* name, const tenon_tensor** out) -> tenon_status* {
    const auto found = of(run).scalars.find(name);
    if (found == of(run).scalars.end()) {
      return make_status(nullptr, TENON_NOT_FOUND, "hook.no_metric", name);
    }
    *out = borrow(found->second);
    return nullptr;
  };
  api_.get_metric = [](tenon_run* run, const char* name, double* out) -> tenon_status* {
    const auto found = of(run).metrics.find(name);
    if (found == of(run).metrics.end()) {
      return make_status(nullptr, TENON_NOT_FOUND, "hook.no_metric", name);
    }
    *out = found->second;
    return nullptr;
  };
  api_.add_metric = [](tenon_run* run, const char* name, double value) -> tenon_status* {
    of(run).metrics[name] = value;
    return nullptr;
  };
  api_.get_num_lr_groups = [](tenon_run* run, size_t* out) -> tenon_status* {
    *out = of(run).lr_groups.size();
    return nullptr;
  };
  api_.get_lr_group = [](tenon_run* run, size_t i, tenon_lr_group* out) -> tenon_status* {
    const LrGroup& group = of(run).lr_groups.at(i);
    out->name_ref = group.name.c_str();
    out->match_ref = "";
    out->rate = group.rate;
    return nullptr;
  };
  api_.get_lr_group_option =
      [](tenon_run* run, size_t i, const char* pointer, double* out) -> tenon_status* {
    const auto& options = of(run).lr_groups.at(i).options;
    const auto found = options.find(pointer);
    if (found == options.end()) {
      return make_status(nullptr, TENON_NOT_FOUND, "options.not_found", pointer);
    }
    *out = found->second;
    return nullptr;
  };
  api_.run_dir = [](tenon_run* run) { return of(run).run_dir_.c_str(); };
}

void FakeRun::fire(const HookProxy& hook, uint32_t event, uint64_t step, bool is_train) {
  if (!hook.wants(event)) {
    return;
  }
  const tenon_exec exec = make_exec(hook.instance());
  tenon_event abi{};
  abi.struct_size = sizeof abi;
  abi.id = event;
  abi.is_train = is_train ? 1 : 0;
  abi.step = step;
  abi.window_label = window_label.c_str();
  abi.message = message.c_str();
  abi.run = reinterpret_cast<tenon_run*>(this);
  abi.api = &api_;
  abi.exec = &exec;
  hook.on_event(abi);
}

}  // namespace tenon
