// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/service_faults.hpp"

#include <tenon/memory.h>
#include <tenon/status.h>

#include "host/error/status.hpp"
#include "host/tools/check/faulty_functions.hpp"

#include <cstddef>

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

}  // namespace

tenon_status* next_call(const char* function) {
  if (++fault_plan.num_calls != fault_plan.at_call) {
    return nullptr;
  }
  tenon_status* const status = make_status(nullptr, TENON_IO, kPlannedId, kPlannedText);
  fault_plan.failed = function;
  fault_plan.status = status;
  return status;
}

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
    faulty[id] = faulty_table(id, table);
  }
  return faulty;
}

}  // namespace tenon
