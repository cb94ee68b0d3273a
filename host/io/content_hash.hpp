// SPDX-License-Identifier: Apache-2.0
//
// Hashes that identify the content of files, also against intent.
// Threads: any.
#pragma once

#include "host/io/durable_file.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace tenon {

// Returns the SHA-256 of a file as "sha256:" and 64 hexadecimal digits; none if it cannot be read.
std::optional<std::string> content_hash(const std::string& file);

// The same for an open file, from its start.
std::optional<std::string> content_hash(const OpenFile& file);

// The same for the bytes of a file that was read.
std::string content_hash_of(std::string_view bytes);

// True if `text` has the form of content_hash(). Hashes of earlier releases use other algorithms,
// so that they cannot be compared: "xxh128:" and 32 digits, or digits without a prefix.
bool is_content_hash(std::string_view text);

}  // namespace tenon
