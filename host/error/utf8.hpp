// SPDX-License-Identifier: Apache-2.0
//
// Checks and repairs UTF-8 text. Only for messages: user data is never changed.
// Threads: any.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tenon {

// Returns the number of bytes of the character at text[0]; 0 if it is invalid. `text` is not empty.
//
// Source   Unicode Standard 15.0, table 3-7: no overlong forms, no surrogates
std::size_t utf8_size(std::string_view text) noexcept;

// Returns the index of the first byte that does not belong to a valid character; npos if there is
// none.
std::size_t invalid_utf8_at(std::string_view text) noexcept;

// True if `text` is valid UTF-8.
bool is_utf8(std::string_view text) noexcept;

// Returns `text` with U+FFFD in place of each byte that does not belong to a valid character.
std::string as_utf8(std::string text);

}  // namespace tenon
