// SPDX-License-Identifier: Apache-2.0
//
// Hashes that tell whether two files hold the same bytes. They guard against mistakes, not against
// malice.
// Threads: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tenon {

// The XXH128 of a file as "xxh128:" and 32 hexadecimal digits; nothing if it cannot be read.
std::optional<std::string> content_hash(const std::string& file);

// True if content_hash() of this release made the text. Hashes of earlier releases come from
// another algorithm and have no prefix; equal files do not have equal hashes then.
bool is_content_hash(std::string_view text);

}  // namespace tenon
