// SPDX-License-Identifier: Apache-2.0
//
// The memory service: scratch memory for plugins.

#pragma once

#include <tenon/memory.h>

namespace tenon {

// Returns the table of TENON_MEMORY_ID.
const tenon_memory_api* memory_service() noexcept;

}  // namespace tenon
