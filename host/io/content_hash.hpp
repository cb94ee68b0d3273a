// SPDX-License-Identifier: Apache-2.0
//
// Hashes that identify the content of files. They detect accidental differences, not malicious
// ones.
// Threads: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tenon {

// Returns the XXH128 of a file as "xxh128:" and 32 hexadecimal digits; none if it cannot be read.
std::optional<std::string> content_hash(const std::string& file);

// True if `text` has the form of content_hash(). Hashes of earlier releases have no prefix and use
// another algorithm, so that they cannot be compared.
bool is_content_hash(std::string_view text);

}  // namespace tenon
