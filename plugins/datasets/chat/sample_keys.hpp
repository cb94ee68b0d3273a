// SPDX-License-Identifier: Apache-2.0
//
// Which keys of samples and messages are read, which are errors because other programs give them a
// meaning, and which are unknown. docs/chat-data.md lists them.
// Threads: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat_options.hpp"
#include "json_sample.hpp"

namespace tenon {

// What a sample is read with, and what nothing read.
struct KeyCheck {
  const IgnoredKeys& ignored;
  std::string_view template_text;    // a key of messages that it names is read by it
  std::vector<std::string> unknown;  // of the sample; each once
};

// Whether a column of this name is read, or may be an error.
bool is_key_of_samples(std::string_view key);

// Checks the keys of a sample.
//
// Errors   chat.unsupported_key: a key with a meaning that this dataset cannot give it
void check_sample_keys(const Json& sample, ChatFormat format, KeyCheck& check);

// Whether the sample's own keys let it be trained on. Errors as for messages.
bool is_sample_trained(const Json& sample, const KeyCheck& check);

// Checks the keys of a message, and removes those that say whether to train on it, with the ignored
// ones. Returns what they say; nothing if the message has none of them.
//
// Errors   chat.unsupported_key, chat.bad_sample: a value of another type, or two that contradict
std::optional<bool> take_training_keys(Json& message, const std::string& place, KeyCheck& check);

}  // namespace tenon
