// SPDX-License-Identifier: Apache-2.0
#include "host/train/generate/chat_session.hpp"

#include "host/error/error.hpp"

namespace tenon {
namespace {

std::string template_of(const TokenizerProxy& tokenizer, const std::string& chat_template) {
  if (chat_template.empty() && tokenizer.info().chat_template.empty()) {
    throw Error("generate.no_template",
                "the tokenizer has no chat template, which a chat needs; use the folder of a chat "
                "model as the tokenizer's file, or give --generate a template by --chat-template "
                "FILE");
  }
  if (!tokenizer.has_pieces()) {
    throw Error("generate.not_possible",
                "the tokenizer cannot keep special tokens in messages apart from those of the chat "
                "template (it lacks encode_pieces); continue texts instead of chats");
  }
  return chat_template.empty() ? tokenizer.info().chat_template : chat_template;
}

}  // namespace

ChatSession::ChatSession(const TokenizerProxy& tokenizer,
                         const std::optional<std::string>& system,
                         const std::string& chat_template,
                         const nlohmann::ordered_json& variables)
    : tokenizer_(tokenizer), template_(template_of(tokenizer, chat_template)) {
  request_.messages = nlohmann::ordered_json::array();
  request_.add_generation_prompt = true;
  for (const auto& [name, text] : tokenizer.info().specials) {
    request_.variables[name] = text;
  }
  for (const auto& [name, value] : variables.items()) {
    request_.variables[name] = value;
  }
  if (system.has_value()) {
    add("system", *system);
  }
}

std::vector<int32_t> ChatSession::ask(const std::string& message) {
  add("user", message);
  std::vector<TextPiece> pieces;
  for (const ChatPiece& piece : template_.render(request_)) {
    pieces.push_back({.text = piece.text, .is_template = piece.is_template});
  }
  std::vector<int32_t> ids = tokenizer_.encode(pieces, /*adds_around=*/false);
  if (ids.empty()) {
    throw Error("generate.not_possible",
                "the chat template renders the message to an empty text; change the template");
  }
  return ids;
}

void ChatSession::answer(const std::string& text) {
  add("assistant", text);
}

void ChatSession::add(const char* role, const std::string& content) {
  request_.messages.push_back({{"role", role}, {"content", content}});
}

}  // namespace tenon
