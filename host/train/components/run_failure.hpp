// SPDX-License-Identifier: Apache-2.0
//
// What an exception that ends a run is called, whoever threw it: the host, libtorch or the standard
// library.
#pragma once

#include "host/error/error.hpp"

#include <exception>

namespace tenon {

// An Error as it is; run.out_of_memory, run.operator_failed (libtorch) or run.internal otherwise.
//
// Threads  any
Error run_failure(const std::exception& exception);

}  // namespace tenon
