// SPDX-License-Identifier: Apache-2.0
//
// Whether bytes are UTF-8 text, and text out of bytes that are not. Not for changing what users
// wrote: only messages are repaired.
// Threads: functions without state, from any.

#pragma once

#include <string>
#include <string_view>

namespace tenon {

// Source   Unicode Standard 15.0, table 3-7: no overlong forms, no surrogates
bool is_utf8(std::string_view text) noexcept;

// `text` where it is UTF-8; else the same with U+FFFD for each byte that belongs to no character.
std::string as_utf8(std::string text);

}  // namespace tenon
