// SPDX-License-Identifier: Apache-2.0
//
// The alphabet of byte-level vocabularies: a visible character for each byte.
// Threads: stateless functions, from any thread.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// The character of a byte, as UTF-8.
std::string_view byte_level_text(unsigned char byte);

// The byte of a character; -1 if it is not in the alphabet.
int byte_of_level_code(char32_t code);

// Appends the bytes of a text in the alphabet. Returns false, and appends nothing, if a character
// is not in the alphabet.
bool append_level_bytes(std::string& out, std::string_view text);

}  // namespace tenon
