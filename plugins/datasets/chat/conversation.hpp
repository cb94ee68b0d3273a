// SPDX-License-Identifier: Apache-2.0
//
// Converts a sample of any of the formats to conversations: messages as chat templates expect them,
// or plain text.
// Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "chat_options.hpp"
#include "json_sample.hpp"
#include "sample_keys.hpp"

namespace tenon {

// One text to encode. It is either messages, or plain text of a prompt and a completion.
struct Conversation {
  Json messages = Json::array();   // without "train"
  std::vector<bool> is_trainable;  // [messages] false: "train": false, or another key that says so
  size_t prompt_size = 0;          // messages that belong to the prompt
  Json tools;                      // a list, or null
  Json variables = Json::object();

  bool is_trained = true;  // false: the sample says not to train on any of it
  bool is_text = false;
  std::string prompt;
  std::string completion;
};

// The format of a sample, by its keys.
//
// Errors   chat.unknown_format
ChatFormat format_of(const Json& sample);

// The conversations of a sample: one, or in format `preference` the chosen and the rejected one.
//
// Errors   chat.bad_sample: a key is missing or has another type; chat.unknown_role;
//          chat.empty_answer; chat.equal_answers: chosen and rejected are equal;
//          chat.unsupported_key: see KeyCheck, which gets the unknown keys
std::vector<Conversation> conversations_of(const Json& sample, ChatFormat format, KeyCheck& check);

// The tools in a value of the key "tools": a list, or JSON text of a list; null if there are none.
//
// Errors   chat.bad_sample
Json tools_of(const Json& value);

// "messages", for messages.
const char* format_name(ChatFormat format);

}  // namespace tenon
