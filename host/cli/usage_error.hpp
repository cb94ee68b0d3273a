// SPDX-License-Identifier: Apache-2.0
//
// Errors of the command line, and parsing of numbers in its options.
// All functions: Errors  usage.bad_option. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

[[noreturn]] void fail_usage(const std::string& message);

// `--launch: expected a number of ranks, found "two"`
[[noreturn]] void fail_value(std::string_view option,
                             const std::string& found,
                             const std::string& expected);

// The same for an option with a fixed set of words; suggests the nearest word if one is close.
[[noreturn]] void fail_word(std::string_view option,
                            const std::string& found,
                            const std::vector<std::string>& words);

// `; did you mean ...`, or `otherwise` after a semicolon if no name is close.
std::string hint_of(std::string_view written,
                    const std::vector<std::string>& names,
                    const std::string& otherwise);

std::string in_quotes(std::string_view text);

// Reads an integer from `least` to `most`; the error text names `expected`.
std::int64_t read_whole(std::string_view option,
                        const std::string& text,
                        std::int64_t least,
                        std::int64_t most,
                        const std::string& expected);

}  // namespace tenon
