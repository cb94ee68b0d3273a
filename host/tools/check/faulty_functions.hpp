// SPDX-License-Identifier: Apache-2.0
//
// Functions of services and objects of the host that count their calls and fail at one of them.
// sdk/abi/glue.py writes the list of these functions, from the headers of the SDK:
// generated_service_faults.cpp. service_faults.hpp plans the failures.
// Threads: one at a time, in the process of the check.
#pragma once

#include <tenon/host.h>
#include <tenon/model.h>
#include <tenon/state.h>
#include <tenon/status.h>

#include "host/plugin/checked/lent_objects.hpp"

#include <cstddef>
#include <cstring>
#include <string_view>

namespace tenon {

// Counts a call. Returns the status of the failure, if it is planned for this call.
tenon_status* next_call(const char* function);

// The table of a service or of an object that the faulty functions call.
template <class Table>
inline Table real_table{};

// The function that replaces `Member` of a table.
template <auto Member, NameText Name>
struct FaultyFunction;

template <class Table, class... Args, tenon_status* (*Table::*Member)(Args...), NameText Name>
struct FaultyFunction<Member, Name> {
  static tenon_status* call(Args... args) {
    tenon_status* const failed = next_call(Name.text);
    return failed != nullptr ? failed : (real_table<Table>.*Member)(args...);
  }
};

// Returns the static copy of a table, for the services of the process.
template <class Table>
Table& faulty_copy(const void* table) {
  static Table copy;
  std::memcpy(&real_table<Table>, table, sizeof(Table));
  copy = real_table<Table>;
  return copy;
}

// Functions that return no status, or count what they return. By hand.
void release_status(tenon_status* status_own);
tenon_status* allocate_counted(const tenon_host* host, std::size_t bytes, void** out_own);
void release_counted(void* memory_own);

// Generated. Return tables whose functions fail. That of a service is the table itself if none of
// its functions does.
const void* faulty_table(std::string_view id, const void* table);
tenon_model_builder faulty_object(const tenon_model_builder& real);
tenon_state_writer faulty_object(const tenon_state_writer& real);

}  // namespace tenon

// Replaces a function of `to`, a Table.
#define TENON_FAULTY(Table, to, field) \
  (to).field = &FaultyFunction<&Table::field, NameText(#field)>::call
