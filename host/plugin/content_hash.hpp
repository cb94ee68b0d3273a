// SPDX-License-Identifier: Apache-2.0
//
// Tells whether two files hold the same bytes. It guards against mistakes, not against malice.

#pragma once

#include <optional>
#include <string>

namespace tenon {

// The content's hash as 32 hexadecimal digits, or nothing where the file cannot be read.
//
// Threads  [any]
// Source   Fowler, Noll, Vo, Eastlake: The FNV Non-Cryptographic Hash Algorithm: FNV-1a, 128 bits
std::optional<std::string> content_hash(const std::string& file);

}  // namespace tenon
