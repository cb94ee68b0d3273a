// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/checked/checked_services.hpp"

#include <tenon/draft/text_generation.h>
#include <tenon/metrics.h>
#include <tenon/parallel.h>

#include "host/error/status.hpp"
#include "host/plugin/checked/call_frame.hpp"
#include "host/plugin/checked/lent_objects.hpp"
#include "host/plugin/loaded_plugin.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/text/formatted.hpp"

#include <optional>
#include <string>

namespace tenon {
namespace {

const tenon_tensor_api* real_tensors = nullptr;
const tenon_op_api* real_ops = nullptr;
const tenon_parallel_api* real_parallel = nullptr;
const tenon_metrics_api* real_metrics = nullptr;
const tenon_text_generation_api* real_texts = nullptr;

// Records a handle that a service has made for the plugin.
tenon_status* record(tenon_status* status, tenon_tensor** out_own, std::string_view service) {
  if (status == nullptr) {
    handle_history().add(*out_own,
                         {.what = std::string(service), .made_in = CallFrame::current_call()});
  }
  return status;
}

// The plugin that a host belongs to, for reports about its threads; null if it is unknown.
const LoadedComponent* plugin_itself(const tenon_host* host) {
  for (const LoadedPlugin* const plugin : loaded_plugins()) {
    if (plugin->host.abi() == host) {
      return &plugin->itself;
    }
  }
  return nullptr;
}

// ---- tensors ----

tenon_status* checked_info(const tenon_tensor* tensor, tenon_tensor_info* out) {
  return check_passed(tensor, "info") ? real_tensors->info(tensor, out) : bad_call_status(nullptr);
}

tenon_status* checked_empty(const tenon_host* host,
                            uint32_t dtype,
                            tenon_device device,
                            uint32_t ndim,
                            const int64_t* shape,
                            tenon_tensor** out_own) {
  return record(real_tensors->empty(host, dtype, device, ndim, shape, out_own), out_own, "empty");
}

tenon_status* checked_full(const tenon_host* host,
                           uint32_t dtype,
                           tenon_device device,
                           uint32_t ndim,
                           const int64_t* shape,
                           double value,
                           tenon_tensor** out_own) {
  return record(
      real_tensors->full(host, dtype, device, ndim, shape, value, out_own), out_own, "full");
}

tenon_status* checked_retain(const tenon_host* host,
                             const tenon_tensor* tensor,
                             tenon_tensor** out_own) {
  return check_passed(tensor, "retain")
             ? record(real_tensors->retain(host, tensor, out_own), out_own, "retain")
             : bad_call_status(host);
}

void checked_release(tenon_tensor* tensor_own) {
  const std::optional<HandleRecord> known =
      tensor_own != nullptr ? handle_history().find(tensor_own) : std::nullopt;
  if (!known) {
    real_tensors->release(tensor_own);
    return;
  }
  const bool is_valid = handle_problem(tensor_own) == nullptr;
  if (is_valid && known->state == HandleState::kBorrowed) {
    report_problem(CallRule::kHandles,
                   "released a handle that it had only borrowed (" + known->origin() +
                       "); release each handle of a function that returns it as `_own` once",
                   known->made_in.component);
  } else if (is_valid && known->state == HandleState::kOwned) {
    handle_history().end(tensor_own, HandleState::kReleased, CallFrame::current_call());
    real_tensors->release(tensor_own);
  } else if (known->state == HandleState::kReleased) {
    report_problem(
        CallRule::kHandles,
        "released a handle twice, first in " + known->ended_in.text() + "; " + known->origin(),
        known->made_in.component);
  } else {
    report_problem(CallRule::kHandles,
                   known->state == HandleState::kReturned
                       ? "released a handle that it had borrowed (" + known->origin() + ")"
                       : "released a handle that belongs to the host since " +
                             known->ended_in.text() + "; " + known->origin(),
                   known->made_in.component);
  }
}

tenon_status* checked_item(const tenon_host* host, const tenon_tensor* tensor, double* out) {
  return check_passed(tensor, "item") ? real_tensors->item(host, tensor, out)
                                      : bad_call_status(host);
}

tenon_status* checked_from_dlpack(const tenon_host* host,
                                  const tenon_exec* exec,
                                  DLManagedTensorVersioned* managed_own,
                                  tenon_tensor** out_own) {
  return record(
      real_tensors->from_dlpack(host, exec, managed_own, out_own), out_own, "from_dlpack");
}

tenon_status* checked_to_dlpack(const tenon_host* host,
                                const tenon_exec* exec,
                                const tenon_tensor* tensor,
                                DLManagedTensorVersioned** out_own) {
  return check_passed(tensor, "to_dlpack") ? real_tensors->to_dlpack(host, exec, tensor, out_own)
                                           : bad_call_status(host);
}

// ---- roles ----

// Reports a service that the call of this thread may not use. It is called all the same: the report
// ends the call.
void check_role(const tenon_host* host, std::string_view service, bool allows_worker) {
  const CallFrame* const frame = CallFrame::current();
  const std::string needs = allows_worker ? "[step] or [worker]" : "[step]";
  if (frame == nullptr) {
    report_problem(CallRule::kRoles,
                   formatted("called {}, which is {}; call it on the thread of a call, or in a "
                             "body of tenon.parallel/1",
                             service,
                             needs),
                   plugin_itself(host));
    return;
  }
  const FunctionRole& role = frame->role();
  const bool fits =
      role.role == Role::kStep || (allows_worker && (role.role == Role::kWorker || role.has_exec));
  if (!fits) {
    report_problem(CallRule::kRoles,
                   formatted("called {}, which is {}, but {} is {}",
                             service,
                             needs,
                             frame->call().function,
                             role_name(role.role)));
  }
}

// ---- operators ----

tenon_status* checked_call(const tenon_host* host,
                           const tenon_op* op,
                           const tenon_any* args,
                           std::size_t num_args,
                           tenon_any* results,
                           std::size_t* io_num_results) {
  const std::string schema = real_ops->schema(op);
  const std::string name = schema.substr(0, schema.find('('));
  check_role(host, "call of tenon.op/1", /*allows_worker=*/true);
  for (std::size_t i = 0; args != nullptr && i < num_args; ++i) {
    const bool is_list = args[i].tag == TENON_ANY_TENSORS && args[i].v.tensors != nullptr;
    if ((args[i].tag == TENON_ANY_TENSOR && !check_passed(args[i].v.tensor, name))) {
      return bad_call_status(host);
    }
    for (std::size_t k = 0; is_list && k < args[i].count; ++k) {
      if (!check_passed(args[i].v.tensors[k], name)) {
        return bad_call_status(host);
      }
    }
  }
  tenon_status* const status = real_ops->call(host, op, args, num_args, results, io_num_results);
  for (std::size_t i = 0; status == nullptr && i < *io_num_results; ++i) {
    if (results[i].tag == TENON_ANY_TENSOR && results[i].v.tensor != nullptr) {
      record(nullptr, &results[i].v.tensor, name);
    }
  }
  return status;
}

// ---- parallel loops ----

// A body that runs in the frame of the call that runs the loop.
struct FramedBody {
  tenon_status* (*body)(void* context, std::size_t begin, std::size_t end);
  void* context;
  CallFrame* frame;

  static tenon_status* run(void* framed, std::size_t begin, std::size_t end) {
    const auto& of = *static_cast<const FramedBody*>(framed);
    const FrameScope scope(of.frame);
    return of.body(of.context, begin, end);
  }
};

tenon_status* checked_loop(const tenon_host* host,
                           std::size_t n,
                           std::size_t grain,
                           tenon_status* (*body)(void* context, std::size_t begin, std::size_t end),
                           void* context) {
  check_role(host, "run of tenon.parallel/1", /*allows_worker=*/true);
  FramedBody framed{body, context, CallFrame::current()};
  return real_parallel->run(host, n, grain, body != nullptr ? &FramedBody::run : nullptr, &framed);
}

// ---- metrics ----

tenon_status* checked_add(const tenon_host* host, const char* name, double sum, double weight) {
  check_role(host, "add of tenon.metrics/1", /*allows_worker=*/false);
  return real_metrics->add(host, name, sum, weight);
}

tenon_status* checked_add_tensor(const tenon_host* host,
                                 const char* name,
                                 const tenon_tensor* sum,
                                 const tenon_tensor* weight) {
  check_role(host, "add_tensor of tenon.metrics/1", /*allows_worker=*/false);
  return check_passed(sum, "add_tensor") && check_passed(weight, "add_tensor")
             ? real_metrics->add_tensor(host, name, sum, weight)
             : bad_call_status(host);
}

// The run that a hook passes is the one that the checking mode lends.
tenon_status* checked_text_check(tenon_run* run, const tenon_text_request* request) {
  const auto* const lent = reinterpret_cast<const CheckedRun*>(run);
  return lent != nullptr && check_use(*lent, "check") ? real_texts->check(lent->real, request)
                                                      : bad_call_status(nullptr);
}

tenon_status* checked_text_generate(tenon_run* run,
                                    const tenon_text_request* request,
                                    tenon_text_result* out) {
  const auto* const lent = reinterpret_cast<const CheckedRun*>(run);
  return lent != nullptr && check_use(*lent, "generate")
             ? real_texts->generate(lent->real, request, out)
             : bad_call_status(nullptr);
}

}  // namespace

const tenon_tensor_api* checked_tensor_service(const tenon_tensor_api& real) {
  static constexpr tenon_tensor_api kChecked = {.struct_size = sizeof(tenon_tensor_api),
                                                .info = checked_info,
                                                .empty = checked_empty,
                                                .full = checked_full,
                                                .retain = checked_retain,
                                                .release = checked_release,
                                                .item = checked_item,
                                                .from_dlpack = checked_from_dlpack,
                                                .to_dlpack = checked_to_dlpack};
  real_tensors = &real;
  return &kChecked;
}

const tenon_op_api* checked_op_service(const tenon_op_api& real) {
  static tenon_op_api checked;
  checked = real;
  checked.call = checked_call;
  real_ops = &real;
  return &checked;
}

const void* checked_service(std::string_view id, const void* table) {
  if (id == TENON_TENSOR_ID && real_tensors != nullptr) {
    return tensor_service();
  }
  if (id == TENON_OP_ID && real_ops != nullptr) {
    return op_service();
  }
  if (id == TENON_PARALLEL_ID) {
    static tenon_parallel_api checked;
    real_parallel = static_cast<const tenon_parallel_api*>(table);
    checked = *real_parallel;
    checked.run = checked_loop;
    return &checked;
  }
  if (id == TENON_METRICS_ID) {
    static tenon_metrics_api checked;
    real_metrics = static_cast<const tenon_metrics_api*>(table);
    checked = *real_metrics;
    checked.add = checked_add;
    checked.add_tensor = checked_add_tensor;
    return &checked;
  }
  if (id == TENON_TEXT_GENERATION_ID) {
    static constexpr tenon_text_generation_api kChecked = {
        .struct_size = sizeof(tenon_text_generation_api),
        .check = checked_text_check,
        .generate = checked_text_generate};
    real_texts = static_cast<const tenon_text_generation_api*>(table);
    return &kChecked;
  }
  return table;
}

}  // namespace tenon
