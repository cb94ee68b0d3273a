// SPDX-License-Identifier: Apache-2.0
//
// The service tenon.parallel/1: loops over libtorch's compute threads, so that plugins and
// operators share one pool.

#pragma once

#include <tenon/parallel.h>

namespace tenon {

// Returns the table that parallel.h documents.
const tenon_parallel_api* parallel_service() noexcept;

}  // namespace tenon
