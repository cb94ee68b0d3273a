// SPDX-License-Identifier: Apache-2.0
//
// Services of the host that fail on purpose: each function that returns a status counts its calls,
// and fails at one of them. faulty_functions.hpp has the functions, also those of a model builder
// and of a state writer.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/plugin/plugin_host.hpp"

#include <cstdint>
#include <string>

namespace tenon {

// The text and the id of the failure.
inline constexpr const char* kPlannedText = "the host fails this call for the check";
inline constexpr const char* kPlannedId = "check.planned_failure";

// Begins to count calls. The call of this number, from 1, fails; 0: none.
void plan_fault(uint64_t at_call);
uint64_t num_counted_calls();
// The function that failed: "get_double"; "" if none has.
std::string failed_function();
// True if the plugin has released the status of the failure.
bool is_fault_released();
// Bytes that the memory service gave and that the plugin has not released: the number of blocks.
int64_t num_live_blocks();

ServiceTable faulty_services(const ServiceTable& services);

}  // namespace tenon
