// SPDX-License-Identifier: Apache-2.0
//
// Option values that are physical quantities: a number, with or without a unit.
// All functions: Errors  usage.bad_option. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

// Bytes, or bytes per second: 80GiB, 80GB, 85899345920, 50e9.
double read_bytes(std::string_view option, const std::string& text);

// The same as an integer, at most 9e18. Errors name `owner`, which cannot have more: "machine".
std::int64_t read_whole_bytes(std::string_view option,
                              const std::string& text,
                              std::string_view owner);

// Floating-point operations per second: 400T, 400e12.
double read_flops(std::string_view option, const std::string& text);

// Seconds: 5us, 5e-6.
double read_seconds(std::string_view option, const std::string& text);

}  // namespace tenon
