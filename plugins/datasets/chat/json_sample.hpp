// SPDX-License-Identifier: Apache-2.0
//
// Parses the JSON of samples. Nesting is bounded, because code that walks through a value calls
// itself, and whole numbers keep their value or are an error.
// Threads: any.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

using Json = nlohmann::ordered_json;

inline constexpr size_t kMaxJsonDepth = 128;

// Fails because of a sample. The caller adds its file and line.
[[noreturn]] void fail_sample(const char* id, const std::string& message);

// "a string", "a list", for messages.
const char* type_words(const Json& value);

// Keys of samples and messages that are skipped: option `ignore`.
using IgnoredKeys = std::vector<std::string>;
bool is_ignored(const IgnoredKeys& keys, std::string_view key);

// A sample without its ignored keys.
//
// Errors   chat.not_utf8, chat.not_json, with the byte
Json parse_sample(std::string_view text, const IgnoredKeys& ignored = {});

// A JSON text inside of a sample, such as that of "tools"; `what` names it.
//
// Errors   chat.bad_sample
Json parse_inner(std::string_view text, const std::string& what);

}  // namespace tenon
