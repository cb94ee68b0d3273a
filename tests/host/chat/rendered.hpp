// SPDX-License-Identifier: Apache-2.0
//
// Renders chats for tests.
#pragma once

#include "host/chat/chat_template.hpp"
#include "host/error/error.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tenon {

inline std::string text_of(const std::vector<ChatPiece>& pieces) {
  std::string text;
  for (const ChatPiece& piece : pieces) {
    text += piece.text;
  }
  return text;
}

// Renders a template with {"x": ...} as its variables, without messages.
inline std::string rendered(
    const std::string& source,
    const nlohmann::ordered_json& variables = nlohmann::ordered_json::object()) {
  ChatRequest request;
  request.messages = nlohmann::ordered_json::array();
  request.variables = variables;
  return text_of(ChatTemplate(source).render(request));
}

// The message of the error that rendering gives; "no error" without one.
inline std::string render_error(
    const std::string& source,
    const nlohmann::ordered_json& variables = nlohmann::ordered_json::object()) {
  try {
    rendered(source, variables);
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace tenon
