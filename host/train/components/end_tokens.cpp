// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/end_tokens.hpp"

#include "host/chat/chat_template.hpp"
#include "host/error/error.hpp"
#include "host/json/bounded_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>

namespace tenon {
namespace {

// Texts of messages that no template writes by itself.
constexpr const char* kQuestionText = "qzqQ7";
constexpr const char* kAnswerText = "qzqA7";
constexpr const char* kFollowUpText = "qzqF7";

using Messages = std::vector<std::pair<std::string, std::string>>;  // roles and contents

// How a template wants contents of messages.
enum class ContentForm { kText, kParts };

// Returns what the template writes after the answer, up to the next message; "" if it fails.
std::string text_after_answer(const ChatTemplate& chat_template,
                              const TokenizerProxy& tokenizer,
                              const Messages& messages,
                              ContentForm form) {
  using MessageJson = nlohmann::ordered_json;
  ChatRequest request;
  request.messages = MessageJson::array();
  for (const auto& [role, text] : messages) {
    const MessageJson part = {{"type", "text"}, {"text", text}};
    request.messages.push_back(
        {{"role", role},
         {"content", form == ContentForm::kText ? MessageJson(text) : MessageJson::array({part})}});
  }
  for (const auto& [name, text] : tokenizer.info().specials) {
    request.variables[name] = text;
  }
  std::string text;
  try {
    for (const ChatPiece& piece : chat_template.render(request)) {
      text += piece.text;
    }
  } catch (const Error&) {
    return "";  // a template may refuse chats like this one
  }
  const size_t answer = text.rfind(kAnswerText);
  if (answer == std::string::npos) {
    return "";
  }
  text.erase(0, answer + std::string_view(kAnswerText).size());
  return text.substr(0, text.find(kFollowUpText));
}

std::optional<int64_t> first_special(const TokenizerProxy& tokenizer, const std::string& text) {
  if (text.empty()) {
    return std::nullopt;
  }
  const auto ids_of = [&](const std::string& some, bool is_template) {
    return tokenizer.encode({{.text = some, .is_template = is_template}}, /*adds_around=*/false);
  };
  for (const int32_t id : ids_of(text, true)) {
    if (id == tokenizer.info().eos) {
      return id;
    }
    // A special token is recognized in templates only.
    const std::string own = tokenizer.decode({id});
    const auto has = [id](const std::vector<int32_t>& ids) {
      return std::ranges::find(ids, id) != ids.end();
    };
    if (!own.empty() && has(ids_of(own, true)) && !has(ids_of(own, false))) {
      return id;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> turn_end(const TokenizerProxy& tokenizer, const std::string& chat_template) {
  if (chat_template.empty() || !tokenizer.has_pieces()) {
    return std::nullopt;
  }
  std::optional<ChatTemplate> rendered;
  try {
    rendered.emplace(chat_template);
  } catch (const Error&) {
    return std::nullopt;  // whoever renders a chat reports it
  }
  const Messages chat = {{"user", kQuestionText}, {"assistant", kAnswerText}};
  // Some templates end an answer only if a message follows.
  Messages longer = chat;
  longer.emplace_back("user", kFollowUpText);
  for (const ContentForm form : {ContentForm::kText, ContentForm::kParts}) {
    for (const bool has_system : {false, true}) {  // which some templates require
      for (Messages messages : {chat, longer}) {
        if (has_system) {
          messages.insert(messages.begin(), {"system", "qzqS7"});
        }
        const std::string text = text_after_answer(*rendered, tokenizer, messages, form);
        if (const auto end = first_special(tokenizer, text)) {
          return end;
        }
      }
    }
  }
  return std::nullopt;
}

std::vector<int64_t> end_ids_of(const std::string& text, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    throw Error("generate.not_possible", name + ": " + what + "; correct or remove the file");
  };
  std::vector<int64_t> ids;
  try {
    const nlohmann::json config = parse_bounded_json(text);
    const auto found = config.is_object() ? config.find("eos_token_id") : config.end();
    if (found == config.end() || found->is_null()) {
      return ids;
    }
    for (const nlohmann::json& id :
         found->is_array() ? *found : nlohmann::json(nlohmann::json::array({*found}))) {
      ids.push_back(integer_of(id));
    }
  } catch (const BadJson& error) {
    refuse("eos_token_id is not an id or a list of ids: " + std::string(error.what()));
  }
  return ids;
}

std::vector<int64_t> end_tokens(const TokenizerProxy& tokenizer, const std::string& chat_template) {
  return end_tokens(tokenizer, chat_template, tokenizer.files());
}

std::vector<int64_t> end_tokens(const TokenizerProxy& tokenizer,
                                const std::string& chat_template,
                                const std::vector<std::pair<std::string, std::string>>& files) {
  const TokenizerInfo& info = tokenizer.info();
  std::vector<int64_t> ends;
  const auto add = [&](int64_t id) {
    if (id >= 0 && id < info.vocab_size && std::ranges::find(ends, id) == ends.end()) {
      ends.push_back(id);
    }
  };
  add(info.eos);
  for (const auto& [name, text] : files) {
    if (name == kGenerationConfig) {
      std::ranges::for_each(end_ids_of(text, "the tokenizer's " + name), add);
    }
  }
  if (const auto end =
          turn_end(tokenizer, chat_template.empty() ? info.chat_template : chat_template)) {
    add(*end);
  }
  return ends;
}

}  // namespace tenon
