// SPDX-License-Identifier: Apache-2.0
//
// Parses option values that are quantities above 0: a number, with or without a unit.
// Errors   usage.bad_option, for every function
// Threads  any
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

// Reads bytes, or bytes per second: 80GiB, 80GB, 85899345920, 50e9.
double read_bytes(std::string_view option, const std::string& text);

// Reads bytes as an integer below 9e18. `owner` is for the error beyond this limit: "no machine has
// that many bytes".
std::int64_t read_whole_bytes(std::string_view option,
                              const std::string& text,
                              std::string_view owner);

// Reads floating-point operations per second: 400T, 400e12.
double read_flops(std::string_view option, const std::string& text);

// Reads seconds: 5us, 5e-6.
double read_seconds(std::string_view option, const std::string& text);

}  // namespace tenon
