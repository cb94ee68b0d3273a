// SPDX-License-Identifier: Apache-2.0
//
// Parses JSON of files that other programs write or that may be corrupt: the index of weights, the
// index of a checkpoint. Nesting is limited, and a key that occurs twice is an error, because
// readers disagree about which one counts. Not for recipes: parse_json() also keeps lines.
// Threads: any.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tenon {

// Maximum nesting of lists and objects; the limit of the reference implementation of safetensors.
inline constexpr std::size_t kMaxFileJsonDepth = 128;

// What is wrong with the text, in a few words, without the file: "it is not valid JSON at byte 7".
class BadJson : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Errors   BadJson
nlohmann::json parse_bounded_json(std::string_view text);

// True if the text is a JSON object that is nested at most kMaxFileJsonDepth deep. Builds no value.
bool is_json_object(std::string_view text) noexcept;

// Return a whole number. nlohmann's own conversions wrap and truncate.
//
// Errors   BadJson for another type, a fraction, or a number that does not fit
std::uint64_t unsigned_of(const nlohmann::json& value);
std::int64_t integer_of(const nlohmann::json& value);

// A text from a file for messages, in quotes and shortened: 'model.embed'.
std::string quoted_start(std::string_view text);

}  // namespace tenon
