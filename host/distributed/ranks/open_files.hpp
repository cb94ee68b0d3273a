// SPDX-License-Identifier: Apache-2.0
//
// Whether a process may open as many files as its connections to other ranks will need. To be asked
// before: the engines that connect ranks end the process where a connection cannot be accepted.
#pragma once

#include <cstdint>

namespace tenon {

// Raises the soft limit (ulimit -n) as far as it is needed and allowed.
// Errors  distributed.no_open_files, with the limit, what is open and what is needed
void allow_connections(uint32_t rank, uint32_t world_size);

}  // namespace tenon
