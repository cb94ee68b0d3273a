// SPDX-License-Identifier: Apache-2.0
//
// Texts and names that plugins pass to the host, or that files contain. They may have any bytes:
// what the host prints, logs or saves must be UTF-8, and must not control a terminal.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

// Number of bytes of a plugin's text that the host keeps.
constexpr std::size_t kMaxPluginText = 4096;
// Number of bytes that a name may have.
constexpr std::size_t kMaxPluginName = 256;

// Returns the text in UTF-8: each invalid byte and each control character except line breaks and
// tabs becomes an escape sequence, such as "\xff" and "\x1b". Control characters above 0x1f become
// "\u007f" or "\u009b", which are valid in JSON too: JSON text stays valid and keeps its value.
std::string printable_text(std::string_view text);

// The same for a text that stands in one line: line breaks and tabs are escaped too.
std::string printable_line(std::string_view text);

// printable_text() of at most kMaxPluginText bytes. A longer text is cut, and its end states how
// many bytes are missing.
std::string plugin_text(std::string_view text);

// Returns why a name is invalid ("has the byte \xff, which is not UTF-8"); "" if it is valid: 1 to
// kMaxPluginName bytes of UTF-8, without control characters.
std::string name_problem(std::string_view name);

// Returns "has flags 9, of which this host knows only 1"; "" if `flags` has no bits but the known.
std::string flags_problem(uint32_t flags, uint32_t known);

}  // namespace tenon
