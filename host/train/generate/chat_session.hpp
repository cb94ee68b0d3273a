// SPDX-License-Identifier: Apache-2.0
//
// A chat with a model: its messages so far, rendered with the chat template of the model's
// tokenizer. Special tokens in messages stay text.
// Threads: the train thread.
#pragma once

#include "host/chat/chat_template.hpp"
#include "host/plugin/tokenizer_proxy.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class ChatSession {
 public:
  // `tokenizer` is borrowed. `system` is the first message, if any. `chat_template` takes the place
  // of the tokenizer's template, unless it is "". `variables` are more variables of the template, a
  // JSON object: {"enable_thinking": false}.
  // Errors  generate.no_template; generate.not_possible if the tokenizer cannot keep special tokens
  //         of messages apart from those of the template; template.invalid
  ChatSession(const TokenizerProxy& tokenizer,
              const std::optional<std::string>& system,
              const std::string& chat_template = "",
              const nlohmann::ordered_json& variables = nlohmann::ordered_json::object());

  // Adds a message of the user. Returns the tokens of the chat so far, up to the answer.
  // Errors  template.*; errors of the tokenizer
  std::vector<int32_t> ask(const std::string& message);
  // Adds the answer to the last message.
  void answer(const std::string& text);

 private:
  void add(const char* role, const std::string& content);

  const TokenizerProxy& tokenizer_;
  ChatTemplate template_;
  ChatRequest request_;
};

}  // namespace tenon
