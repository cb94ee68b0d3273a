// SPDX-License-Identifier: Apache-2.0
//
// Reports errors of the command line, and parses numbers in its options.
// Errors   usage.bad_option; hint_of(), in_quotes() and not_utf8_text() do not fail
// Threads  any
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

[[noreturn]] void fail_usage(const std::string& message);

// Fails with a message such as `--launch: expected a number of ranks, found "two"`.
[[noreturn]] void fail_value(std::string_view option,
                             const std::string& found,
                             const std::string& expected);

// Fails for an option with a fixed set of words; suggests the nearest word if one is close.
[[noreturn]] void fail_word(std::string_view option,
                            const std::string& found,
                            const std::vector<std::string>& words);

// Returns `; did you mean ...`, or a semicolon and `otherwise` if no name is close.
std::string hint_of(std::string_view written,
                    const std::vector<std::string>& names,
                    const std::string& otherwise);

std::string in_quotes(std::string_view text);

// Says where a text is not UTF-8, which it must not be: "is not valid UTF-8: byte 4 of ...".
std::string not_utf8_text(std::string_view value);

// Parses an integer from `least` to `most`. `expected` is for the message.
std::int64_t read_whole(std::string_view option,
                        const std::string& text,
                        std::int64_t least,
                        std::int64_t most,
                        const std::string& expected);

}  // namespace tenon
