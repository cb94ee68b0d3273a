// SPDX-License-Identifier: Apache-2.0
//
// Converts an exception that ends a run, thrown by the host, libtorch or the standard library, to
// an Error.
#pragma once

#include "host/error/error.hpp"

#include <exception>

namespace tenon {

// Returns an Error unchanged; otherwise run.out_of_memory, run.operator_failed (libtorch),
// run.out_of_resources (a limit of threads, processes or descriptors) or run.internal.
//
// Threads  any
Error run_failure(const std::exception& exception);

}  // namespace tenon
