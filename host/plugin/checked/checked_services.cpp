// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/checked/checked_services.hpp"

#include <tenon/parallel.h>

#include "host/plugin/checked/checked_functions.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/text/formatted.hpp"

#include <optional>
#include <string>

namespace tenon {
namespace {

// The plugin that a host belongs to, for reports about its threads; null if it is unknown.
const LoadedComponent* plugin_itself(const tenon_host* host) {
  for (const LoadedPlugin* const plugin : loaded_plugins()) {
    if (plugin->host.abi() == host) {
      return &plugin->itself;
    }
  }
  return nullptr;
}

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

}  // namespace

void check_role(const tenon_host* host, std::string_view service, ServiceRole needed) {
  const bool allows_worker = needed == ServiceRole::kStepOrWorker;
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

tenon_status* record_made(tenon_status* status, tenon_tensor** out_own, std::string_view service) {
  if (status == nullptr) {
    handle_history().add(*out_own,
                         {.what = std::string(service), .made_in = CallFrame::current_call()});
  }
  return status;
}

void checked_tensor_release(tenon_tensor* tensor_own) {
  const std::optional<HandleRecord> known =
      tensor_own != nullptr ? handle_history().find(tensor_own) : std::nullopt;
  if (!known) {
    real_service<tenon_tensor_api>->release(tensor_own);
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
    real_service<tenon_tensor_api>->release(tensor_own);
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

tenon_status* checked_op_call(const tenon_host* host,
                              const tenon_op* op,
                              const tenon_any* args,
                              std::size_t num_args,
                              tenon_any* results,
                              std::size_t* io_num_results) {
  const tenon_op_api& real = *real_service<tenon_op_api>;
  const std::string schema = real.schema(op);
  const std::string name = schema.substr(0, schema.find('('));
  check_role(host, "call of tenon.op/1", ServiceRole::kStepOrWorker);
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
  tenon_status* const status = real.call(host, op, args, num_args, results, io_num_results);
  for (std::size_t i = 0; status == nullptr && i < *io_num_results; ++i) {
    if (results[i].tag == TENON_ANY_TENSOR && results[i].v.tensor != nullptr) {
      record_made(nullptr, &results[i].v.tensor, name);
    }
  }
  return status;
}

tenon_status* checked_parallel_run(const tenon_host* host,
                                   std::size_t n,
                                   std::size_t grain,
                                   tenon_status* (*body)(void* context,
                                                         std::size_t begin,
                                                         std::size_t end),
                                   void* context) {
  check_role(host, "run of tenon.parallel/1", ServiceRole::kStepOrWorker);
  FramedBody framed{body, context, CallFrame::current()};
  return real_service<tenon_parallel_api>->run(
      host, n, grain, body != nullptr ? &FramedBody::run : nullptr, &framed);
}

const tenon_tensor_api* checked_tensor_service(const tenon_tensor_api& real) {
  return static_cast<const tenon_tensor_api*>(service_with_checks(TENON_TENSOR_ID, &real));
}

const tenon_op_api* checked_op_service(const tenon_op_api& real) {
  return static_cast<const tenon_op_api*>(service_with_checks(TENON_OP_ID, &real));
}

const void* checked_service(std::string_view id, const void* table) {
  if (id == TENON_TENSOR_ID && real_service<tenon_tensor_api> != nullptr) {
    return tensor_service();
  }
  if (id == TENON_OP_ID && real_service<tenon_op_api> != nullptr) {
    return op_service();
  }
  return service_with_checks(id, table);
}

}  // namespace tenon
