// SPDX-License-Identifier: Apache-2.0
#include "host/check/service_faults.hpp"

#include <tenon/draft/text_generation.h>
#include <tenon/memory.h>
#include <tenon/metrics.h>
#include <tenon/op.h>
#include <tenon/options.h>
#include <tenon/parallel.h>
#include <tenon/random.h>
#include <tenon/status.h>
#include <tenon/tensor.h>

#include "host/error/status.hpp"

#include <cstddef>
#include <cstring>

namespace tenon {
namespace {

struct FaultPlan {
  uint64_t at_call = 0;
  uint64_t num_calls = 0;
  const char* failed = "";
  const tenon_status* status = nullptr;
  bool is_released = false;
};

FaultPlan fault_plan;
int64_t live_blocks = 0;

// Counts a call. Returns the status of the failure, if it is planned for this call.
tenon_status* next_call(const char* function) {
  if (++fault_plan.num_calls != fault_plan.at_call) {
    return nullptr;
  }
  tenon_status* const status = make_status(nullptr, TENON_IO, kPlannedId, kPlannedText);
  fault_plan.failed = function;
  fault_plan.status = status;
  return status;
}

// A name as a template argument.
template <std::size_t N>
struct FunctionName {
  char text[N];
  consteval FunctionName(
      const char (&given)[N]) {  // NOLINT(google-explicit-constructor): a literal
    for (std::size_t i = 0; i < N; ++i) {
      text[i] = given[i];
    }
  }
};

// The table of a service or of an object that the faulty functions call.
template <class Table>
Table real_table{};

// The function that replaces `Member` of a table.
template <auto Member, FunctionName Name>
struct FaultyFunction;

template <class Table, class... Args, tenon_status* (*Table::*Member)(Args...), FunctionName Name>
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

}  // namespace
}  // namespace tenon

// Replaces a function of `to`, a Table.
#define TENON_FAULTY(Table, to, field) \
  (to).field = &FaultyFunction<&Table::field, FunctionName(#field)>::call

namespace tenon {
namespace {

void release_status(tenon_status* status_own) {
  if (status_own != nullptr && status_own == fault_plan.status) {
    fault_plan.is_released = true;
  }
  real_table<tenon_status_api>.release(status_own);
}

tenon_status* allocate_counted(const tenon_host* host, std::size_t bytes, void** out_own) {
  if (tenon_status* const failed = next_call("allocate")) {
    return failed;
  }
  tenon_status* const status = real_table<tenon_memory_api>.allocate(host, bytes, out_own);
  live_blocks += status == nullptr && *out_own != nullptr ? 1 : 0;
  return status;
}

void release_counted(void* memory_own) {
  live_blocks -= memory_own != nullptr ? 1 : 0;
  real_table<tenon_memory_api>.release(memory_own);
}

const void* faulty_options(const void* table) {
  auto& to = faulty_copy<tenon_options_api>(table);
  TENON_FAULTY(tenon_options_api, to, get_bool);
  TENON_FAULTY(tenon_options_api, to, get_int);
  TENON_FAULTY(tenon_options_api, to, get_double);
  TENON_FAULTY(tenon_options_api, to, get_string);
  TENON_FAULTY(tenon_options_api, to, get_count);
  TENON_FAULTY(tenon_options_api, to, get_key);
  TENON_FAULTY(tenon_options_api, to, get_json);
  TENON_FAULTY(tenon_options_api, to, get_component);
  return &to;
}

const void* faulty_tensors(const void* table) {
  auto& to = faulty_copy<tenon_tensor_api>(table);
  TENON_FAULTY(tenon_tensor_api, to, info);
  TENON_FAULTY(tenon_tensor_api, to, empty);
  TENON_FAULTY(tenon_tensor_api, to, full);
  TENON_FAULTY(tenon_tensor_api, to, retain);
  TENON_FAULTY(tenon_tensor_api, to, item);
  TENON_FAULTY(tenon_tensor_api, to, from_dlpack);
  TENON_FAULTY(tenon_tensor_api, to, to_dlpack);
  return &to;
}

const void* faulty_others(std::string_view id, const void* table) {
  if (id == TENON_OP_ID) {
    auto& to = faulty_copy<tenon_op_api>(table);
    TENON_FAULTY(tenon_op_api, to, find);
    TENON_FAULTY(tenon_op_api, to, call);
    return &to;
  }
  if (id == TENON_RANDOM_ID) {
    auto& to = faulty_copy<tenon_random_api>(table);
    TENON_FAULTY(tenon_random_api, to, fill_uniform);
    TENON_FAULTY(tenon_random_api, to, fill_normal);
    return &to;
  }
  if (id == TENON_PARALLEL_ID) {
    auto& to = faulty_copy<tenon_parallel_api>(table);
    TENON_FAULTY(tenon_parallel_api, to, run);
    return &to;
  }
  if (id == TENON_METRICS_ID) {
    auto& to = faulty_copy<tenon_metrics_api>(table);
    TENON_FAULTY(tenon_metrics_api, to, add);
    TENON_FAULTY(tenon_metrics_api, to, add_tensor);
    return &to;
  }
  if (id == TENON_TEXT_GENERATION_ID) {
    auto& to = faulty_copy<tenon_text_generation_api>(table);
    TENON_FAULTY(tenon_text_generation_api, to, check);
    TENON_FAULTY(tenon_text_generation_api, to, generate);
    return &to;
  }
  if (id == TENON_MEMORY_ID) {
    auto& to = faulty_copy<tenon_memory_api>(table);
    to.allocate = allocate_counted;
    to.release = release_counted;
    return &to;
  }
  if (id == TENON_STATUS_ID) {
    auto& to = faulty_copy<tenon_status_api>(table);
    to.release = release_status;
    return &to;
  }
  return table;
}

}  // namespace

void plan_fault(uint64_t at_call) {
  fault_plan = {.at_call = at_call};
}

uint64_t num_counted_calls() {
  return fault_plan.num_calls;
}

std::string failed_function() {
  return fault_plan.failed;
}

bool is_fault_released() {
  return fault_plan.is_released;
}

int64_t num_live_blocks() {
  return live_blocks;
}

ServiceTable faulty_services(const ServiceTable& services) {
  ServiceTable faulty;
  for (const auto& [id, table] : services) {
    faulty[id] = id == TENON_OPTIONS_ID  ? faulty_options(table)
                 : id == TENON_TENSOR_ID ? faulty_tensors(table)
                                         : faulty_others(id, table);
  }
  return faulty;
}

tenon_model_builder faulty_builder(const tenon_model_builder& real) {
  tenon_model_builder to = real_table<tenon_model_builder> = real;
  TENON_FAULTY(tenon_model_builder, to, add_value);
  TENON_FAULTY(tenon_model_builder, to, add_parameter);
  TENON_FAULTY(tenon_model_builder, to, add_buffer);
  TENON_FAULTY(tenon_model_builder, to, add_block);
  return to;
}

tenon_state_writer faulty_writer(const tenon_state_writer& real) {
  tenon_state_writer to = real_table<tenon_state_writer> = real;
  TENON_FAULTY(tenon_state_writer, to, put_int);
  TENON_FAULTY(tenon_state_writer, to, put_double);
  TENON_FAULTY(tenon_state_writer, to, put_bytes);
  TENON_FAULTY(tenon_state_writer, to, put_tensor);
  return to;
}

}  // namespace tenon
