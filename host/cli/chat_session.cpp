// SPDX-License-Identifier: Apache-2.0
#include "host/cli/chat_session.hpp"

#include "host/cli/usage_error.hpp"
#include "host/error/error.hpp"
#include "host/io/regular_file.hpp"

#include <cstdint>
#include <utility>

namespace tenon {
namespace {

constexpr std::uint64_t kMaxTemplateBytes = 1'000'000;

std::string template_of(const TokenizerProxy& tokenizer, const std::string& template_file) {
  if (template_file.empty() && tokenizer.info().chat_template.empty()) {
    throw Error("generate.no_template",
                "the tokenizer has no chat template, which --chat needs; give one by "
                "--chat-template FILE, use the folder of a chat model as the tokenizer's file, or "
                "omit --chat");
  }
  if (!tokenizer.has_pieces()) {
    throw Error("generate.not_possible",
                "the tokenizer cannot keep special tokens in messages apart from those of the chat "
                "template (it lacks encode_pieces); omit --chat");
  }
  if (template_file.empty()) {
    return tokenizer.info().chat_template;
  }
  FileText file = read_file_text(template_file, kMaxTemplateBytes);
  if (!file.problem.empty()) {
    fail_usage("--chat-template: " + template_file + ": " + file.problem);
  }
  return std::move(file.text);
}

}  // namespace

ChatSession::ChatSession(const TokenizerProxy& tokenizer,
                         const std::optional<std::string>& system,
                         const std::string& template_file)
    : tokenizer_(tokenizer), template_(template_of(tokenizer, template_file)) {
  request_.messages = nlohmann::ordered_json::array();
  request_.add_generation_prompt = true;
  for (const auto& [name, text] : tokenizer.info().specials) {
    request_.variables[name] = text;
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
