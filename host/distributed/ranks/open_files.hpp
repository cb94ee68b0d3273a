// SPDX-License-Identifier: Apache-2.0
//
// Ensures that a process may open enough files for its connections to other ranks. Call it before
// connecting: the engines end the process if they cannot accept a connection.
#pragma once

#include <cstdint>

namespace tenon {

// Raises the soft limit (ulimit -n) as far as needed and allowed.
// Errors  distributed.no_open_files, with the limit, the open files and the files needed
void allow_connections(uint32_t rank, uint32_t world_size);

}  // namespace tenon
