// SPDX-License-Identifier: Apache-2.0
#include "host/cli/chat_prompt.hpp"

#include "host/chat/chat_template.hpp"
#include "host/cli/usage_error.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/io/regular_file.hpp"

#include <cstdint>
#include <utility>

namespace tenon {
namespace {

constexpr std::uint64_t kMaxTemplateBytes = 1'000'000;

std::string template_text(const TokenizerInfo& tokenizer, const GenerateRequest& request) {
  if (!request.chat_template.empty()) {
    FileText file = read_file_text(request.chat_template, kMaxTemplateBytes);
    if (!file.problem.empty()) {
      fail_usage("--chat-template: " + request.chat_template + ": " + file.problem);
    }
    return std::move(file.text);
  }
  if (tokenizer.chat_template.empty()) {
    throw Error("generate.not_possible",
                "--chat: the tokenizer has no chat template; give one by --chat-template FILE, or "
                "omit --chat to continue the prompt as plain text");
  }
  return tokenizer.chat_template;
}

ChatRequest chat_of(const TokenizerInfo& tokenizer,
                    const GenerateRequest& request,
                    const std::string& message) {
  ChatRequest chat;
  chat.messages = nlohmann::ordered_json::array();
  chat.add_generation_prompt = true;
  if (!request.system.empty()) {
    chat.messages.push_back({{"role", "system"}, {"content", request.system}});
  }
  chat.messages.push_back({{"role", "user"}, {"content", message}});
  for (const auto& [name, text] : tokenizer.specials) {
    chat.variables[name] = text;
  }
  return chat;
}

}  // namespace

std::vector<TextPiece> chat_prompt(const TokenizerInfo& tokenizer,
                                   const GenerateRequest& request,
                                   const std::string& message) {
  const std::string text = template_text(tokenizer, request);
  std::vector<TextPiece> pieces;
  try {
    for (ChatPiece& piece : ChatTemplate(text).render(chat_of(tokenizer, request, message))) {
      pieces.push_back({.text = std::move(piece.text), .is_template = piece.is_template});
    }
  } catch (const StatusError& error) {
    throw Error("generate.not_possible",
                "the chat template" +
                    (request.chat_template.empty() ? std::string(" of the tokenizer")
                                                   : " " + request.chat_template) +
                    " cannot render the prompt: " + error.message());
  }
  return pieces;
}

}  // namespace tenon
