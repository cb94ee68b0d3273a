// SPDX-License-Identifier: Apache-2.0
//
// The error for a system call that failed because a limit of the process or of the machine is
// reached: processes, threads, file descriptors or memory.
// Threads: any.

#pragma once

#include "host/error/error.hpp"

#include <string>

namespace tenon {

// Returns "raise ulimit -v, which is 4000000 KiB" if the addresses of this process are limited,
// else
// "". Such a limit ends a run long before its model is too large.
std::string address_limit_advice();

// Returns what to do if a system call failed with this errno. Returns "" if the errno names no
// limit.
const char* resource_advice(int error) noexcept;

// Returns run.out_of_resources: "what: reason; advice". `what` names the task and the call.
Error resource_failure(const std::string& what, int error);

}  // namespace tenon
