// SPDX-License-Identifier: Apache-2.0
//
// Converts a sample of any of the formats to conversations: messages as chat templates expect them,
// or plain text.
// Threads: any.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "chat_options.hpp"

namespace tenon {

using Json = nlohmann::ordered_json;

// One text to encode. It is either messages, or plain text of a prompt and a completion.
struct Conversation {
  Json messages = Json::array();   // without "train"
  std::vector<bool> is_trainable;  // [messages] false: "train": false
  size_t prompt_size = 0;          // messages that belong to the prompt
  Json tools;                      // a list, or null
  Json variables = Json::object();

  bool is_text = false;
  std::string prompt;
  std::string completion;
};

// The first byte that is not UTF-8; npos if there is none.
size_t invalid_utf8(std::string_view text);

// A parsed sample of a file.
//
// Errors   chat.not_utf8, chat.not_json, with the byte
Json parse_sample(std::string_view text);

// The format of a sample, by its keys.
//
// Errors   chat.unknown_format
ChatFormat format_of(const Json& sample);

// The conversations of a sample: one, or in format `preference` the chosen and the rejected one.
//
// Errors   chat.bad_sample: a key is missing or has another type; chat.unknown_role;
//          chat.empty_answer; chat.equal_answers: chosen and rejected are equal
std::vector<Conversation> conversations_of(const Json& sample, ChatFormat format);

// The tools in a value of the key "tools": a list, or JSON text of a list; null if there are none.
//
// Errors   chat.bad_sample
Json tools_of(const Json& value);

// "messages", for messages.
const char* format_name(ChatFormat format);

}  // namespace tenon
