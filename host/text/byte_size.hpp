// SPDX-License-Identifier: Apache-2.0
//
// Formats sizes of memory and files for people: "640 B", "1.5 KiB", "12.0 MiB", "1.25 GiB".
// Threads: any.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

std::string byte_size(uint64_t bytes);

}  // namespace tenon
