// SPDX-License-Identifier: Apache-2.0
//
// The functions of checked tables and services. sdk/abi/glue.py writes most of them, from the
// headers of the SDK: generated_tables.cpp and generated_services.cpp. This file declares what
// those two need, and the functions that are written by hand.
// Threads: those of the functions.
#pragma once

#include <tenon/feature.h>
#include <tenon/hook.h>
#include <tenon/op.h>
#include <tenon/state.h>
#include <tenon/tensor.h>

#include "host/plugin/call_watch.hpp"
#include "host/plugin/checked/call_frame.hpp"
#include "host/plugin/loaded_plugin.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

namespace tenon {

// ---- tables of components ----

inline CallFrame& current_frame() {
  return *CallFrame::current();
}

// Returns the table of the component whose call is in progress, as the plugin registered it.
template <class Table>
const Table& registered(const void* /*self*/) {
  return *static_cast<const Table*>(current_call_slot->component.load()->table);
}

// A component may offer another table of its state for each instance.
template <>
const tenon_stateful& registered<tenon_stateful>(const void* self);

// Keep a count that `describe` of an instance of that component returned, such as "num_slots", for
// arrays whose length the arguments do not state. Without one, count_of returns 0.
void set_count(const void* self, std::string_view name, std::size_t count);
std::size_t count_of(const void* self, std::string_view name);

// Returns a copy of a table, as long as the plugin's, in which `replace` sets functions.
template <class Table, class Replace>
std::shared_ptr<const void> copied(const void* table, const Replace& replace) {
  auto copy = std::make_shared<Table>();
  std::size_t size = 0;
  std::memcpy(&size, table, sizeof(size));
  std::memcpy(copy.get(), table, std::min(size, sizeof(Table)));
  copy->struct_size = std::min(size, sizeof(Table));
  replace(*copy);
  return copy;
}

template <class Function>
void set_if(Function*& function, Function* other) {
  if (function != nullptr) {
    function = other;
  }
}

// By hand.
tenon_status* checked_feature_run(const tenon_exec* exec, tenon_feature_call* calls, std::size_t n);
tenon_status* checked_hook_on_event(void* self, const tenon_event* event);

// Generated.
std::shared_ptr<const void> table_with_checks(const LoadedComponent& component);
const tenon_stateful& checked_stateful_table();
void check_functions(tenon_run_api& to);

// ---- services ----

// The host's own table of a service.
template <class Table>
inline const Table* real_service = nullptr;

// Returns a copy of the table of a service, in which `replace` sets functions.
template <class Table, class Replace>
const Table* checked_copy(const void* table, const Replace& replace) {
  static Table copy;
  real_service<Table> = static_cast<const Table*>(table);
  copy = *real_service<Table>;
  replace(copy);
  return &copy;
}

// The thread roles in which a service may be called.
enum class ServiceRole { kStep, kStepOrWorker };

// Reports a service that the call of this thread may not use. It is called all the same: the report
// ends the call.
void check_role(const tenon_host* host, std::string_view service, ServiceRole needed);

// Records a handle that a service has made for the plugin, unless it failed. Returns the status.
tenon_status* record_made(tenon_status* status, tenon_tensor** out_own, std::string_view service);

// By hand.
void checked_tensor_release(tenon_tensor* tensor_own);
tenon_status* checked_op_call(const tenon_host* host,
                              const tenon_op* op,
                              const tenon_any* args,
                              std::size_t num_args,
                              tenon_any* results,
                              std::size_t* io_num_results);
tenon_status* checked_parallel_run(const tenon_host* host,
                                   std::size_t n,
                                   std::size_t grain,
                                   tenon_status* (*body)(void* context,
                                                         std::size_t begin,
                                                         std::size_t end),
                                   void* context);

// Generated. Returns the table of a service that is to be used in place of `table`, which may be
// the same.
const void* service_with_checks(std::string_view id, const void* table);

}  // namespace tenon
