// SPDX-License-Identifier: Apache-2.0
//
// Code points of UTF-8 text, and the white space of Python.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon {

// Whether a byte continues a character of UTF-8 text.
bool is_continuation(char byte);
// The code point that `text` encodes, which has its 1 to 4 bytes.
uint32_t code_point_of(std::string_view text);
// Byte offsets of the code points of UTF-8 text, and its end.
std::vector<size_t> code_points(std::string_view text);
// Number of code points.
size_t num_code_points(std::string_view text);
// Length in bytes of the white space, as Python defines it, that the text starts or ends with; 0:
// none.
size_t space_at_start(std::string_view text);
size_t space_at_end(std::string_view text);

}  // namespace tenon
