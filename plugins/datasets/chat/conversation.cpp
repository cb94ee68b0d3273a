// SPDX-License-Identifier: Apache-2.0
#include "conversation.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace tenon {
namespace {

[[noreturn]] void fail(const char* id, const std::string& message) {
  throw Error(TENON_INVALID, id, message);
}

// Returns the number of bytes of the character at text[0]; 0 if it is invalid.
//
// Source   Unicode Standard 15.0, table 3-7
size_t utf8_size(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto is_tail = [&](size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return i < text.size() && at(i) >= low && at(i) <= high;
  };
  const unsigned char lead = at(0);
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xc2 && lead <= 0xdf) {
    return is_tail(1) ? 2 : 0;
  }
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool is_valid =
        is_tail(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf) && is_tail(2);
    return is_valid ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool is_valid = is_tail(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf) &&
                          is_tail(2) && is_tail(3);
    return is_valid ? 4 : 0;
  }
  return 0;
}

const char* type_of(const Json& value) {
  return value.is_null()      ? "null"
         : value.is_boolean() ? "a boolean"
         : value.is_number()  ? "a number"
         : value.is_string()  ? "a string"
         : value.is_array()   ? "a list"
                              : "an object";
}

// The value of a key; null if it is missing or null.
const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& get(const Json& object, const char* key) {
  const Json* const value = find(object, key);
  if (value == nullptr) {
    fail("chat.bad_sample", concat("the key \"", key, "\" is missing"));
  }
  return *value;
}

std::string text_of(const Json& value, const std::string& place) {
  if (!value.is_string()) {
    fail("chat.bad_sample", place + " is " + type_of(value) + ", expected a string");
  }
  return value.get<std::string>();
}

std::string optional_text(const Json& object, const char* key) {
  const Json* const value = find(object, key);
  return value == nullptr ? std::string() : text_of(*value, concat("\"", key, "\""));
}

const Json& list_at(const Json& object, const char* key) {
  const Json& value = get(object, key);
  if (!value.is_array()) {
    fail("chat.bad_sample", concat("\"", key, "\" is ", type_of(value), ", expected a list"));
  }
  return value;
}

bool is_blank(const Json* content) {
  if (content == nullptr) {
    return true;
  }
  if (content->is_string()) {
    const auto& text = content->get_ref<const std::string&>();
    return text.find_first_not_of(" \t\r\n") == std::string::npos;
  }
  return content->is_array() && content->empty();
}

constexpr std::array<std::string_view, 7> kRoles = {
    "system", "developer", "user", "assistant", "tool", "function", "ipython"};

// Adds a message to the conversation, after checking it.
void add_message(Conversation& chat, Json message, const std::string& place) {
  if (!message.is_object()) {
    fail("chat.bad_sample", place + " is " + type_of(message) + ", expected an object");
  }
  const Json* const role = find(message, "role");
  if (role == nullptr || !role->is_string()) {
    fail("chat.bad_sample", place + " has no \"role\"");
  }
  const auto name = role->get<std::string>();
  if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end()) {
    fail("chat.unknown_role",
         place + " has the unknown role " + json_string(name) +
             " (expected system, developer, user, assistant, tool, function or ipython)");
  }
  bool is_trainable = true;
  if (const Json* const train = find(message, "train")) {
    if (!train->is_boolean()) {
      fail("chat.bad_sample", place + ": \"train\" is " + type_of(*train) + ", expected a boolean");
    }
    is_trainable = train->get<bool>();
  }
  message.erase("train");
  const Json* const content = find(message, "content");
  if (content != nullptr && !content->is_string() && !content->is_array()) {
    fail("chat.bad_sample",
         place + ": \"content\" is " + type_of(*content) + ", expected a string or a list");
  }
  const Json* const calls = find(message, "tool_calls");
  if (name == "assistant" && is_trainable && is_blank(content) &&
      (calls == nullptr || calls->empty())) {
    fail(
        "chat.empty_answer",
        place + " is an empty answer of the assistant; remove the sample, or set \"train\": false");
  }
  chat.messages.push_back(std::move(message));
  chat.is_trainable.push_back(is_trainable);
}

void add_messages(Conversation& chat, const Json& messages, const std::string& key) {
  for (size_t i = 0; i < messages.size(); ++i) {
    add_message(chat, messages[i], concat("message ", i + 1, " of \"", key, "\""));
  }
}

void add_said(Conversation& chat, const char* role, std::string text, const std::string& place) {
  add_message(chat, {{"role", role}, {"content", std::move(text)}}, place);
}

// ---- ShareGPT ----

// The call or calls in the text of a `function_call` message.
Json tool_calls_of(const std::string& text, const std::string& place) {
  Json calls = Json::parse(text, nullptr, false);
  if (calls.is_object()) {
    calls = Json::array({calls});
  }
  Json result = Json::array();
  for (const Json& call : calls.is_array() ? calls : Json::array({nullptr})) {
    if (!call.is_object() || find(call, "name") == nullptr) {
      fail("chat.bad_sample",
           place + ": the value of a function_call is not JSON with \"name\" and \"arguments\"");
    }
    result.push_back({{"type", "function"}, {"function", call}});
  }
  return result;
}

// A message {"from": ..., "value": ...}, or one with "role" and "content".
Json message_of_turn(const Json& turn, const std::string& place) {
  if (!turn.is_object() || find(turn, "role") != nullptr) {
    return turn;
  }
  static const std::map<std::string, const char*> kNames = {{"human", "user"},
                                                            {"user", "user"},
                                                            {"gpt", "assistant"},
                                                            {"assistant", "assistant"},
                                                            {"model", "assistant"},
                                                            {"chatgpt", "assistant"},
                                                            {"bing", "assistant"},
                                                            {"bard", "assistant"},
                                                            {"function_call", "assistant"},
                                                            {"system", "system"},
                                                            {"observation", "tool"},
                                                            {"tool", "tool"}};
  const Json* const from = find(turn, "from");
  if (from == nullptr || !from->is_string()) {
    fail("chat.bad_sample", place + " has no \"from\"");
  }
  const auto name = from->get<std::string>();
  const auto role = kNames.find(name);
  if (role == kNames.end()) {
    fail("chat.unknown_role",
         place + " is from the unknown role " + json_string(name) +
             " (expected system, human, gpt, function_call or observation)");
  }
  std::string text = text_of(get(turn, "value"), place + ": \"value\"");
  Json message = {{"role", role->second}};
  if (name == "function_call") {
    message["content"] = "";
    message["tool_calls"] = tool_calls_of(text, place);
  } else {
    message["content"] = std::move(text);
  }
  if (const Json* const train = find(turn, "train")) {
    message["train"] = *train;
  }
  return message;
}

void add_turns(Conversation& chat, const Json& turns, const std::string& key) {
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string place = concat("message ", i + 1, " of \"", key, "\"");
    add_message(chat, message_of_turn(turns[i], place), place);
  }
}

void add_system(Conversation& chat, const Json& sample) {
  if (const std::string system = optional_text(sample, "system"); !system.empty()) {
    add_said(chat, "system", system, "\"system\"");
  }
}

// ---- the formats ----

Conversation alpaca_of(const Json& sample) {
  Conversation chat;
  add_system(chat, sample);
  if (const Json* const history = find(sample, "history")) {
    for (size_t i = 0; history->is_array() && i < history->size(); ++i) {
      const Json& turn = (*history)[i];
      const std::string place = concat("turn ", i + 1, " of \"history\"");
      if (!turn.is_array() || turn.size() != 2) {
        fail("chat.bad_sample", place + " is not a pair of strings");
      }
      add_said(chat, "user", text_of(turn[0], place), place);
      add_said(chat, "assistant", text_of(turn[1], place), place);
    }
  }
  std::string instruction = text_of(get(sample, "instruction"), "\"instruction\"");
  if (const std::string input = optional_text(sample, "input"); !input.empty()) {
    instruction += (instruction.empty() ? "" : "\n") + input;
  }
  add_said(chat, "user", std::move(instruction), "\"instruction\"");
  chat.prompt_size = chat.messages.size();
  add_said(chat, "assistant", text_of(get(sample, "output"), "\"output\""), "\"output\"");
  return chat;
}

// Adds a completion, or an answer of a pair, to a prompt of messages.
void add_completion(Conversation& chat, const Json& completion, const std::string& key) {
  if (completion.is_array()) {
    add_turns(chat, completion, key);
  } else if (completion.is_object()) {
    add_turns(chat, Json::array({completion}), key);
  } else {
    add_said(chat, "assistant", text_of(completion, "\"" + key + "\""), "\"" + key + "\"");
  }
}

void set_text(Conversation& chat, std::string prompt, std::string completion, const char* key) {
  if (completion.find_first_not_of(" \t\r\n") == std::string::npos) {
    fail("chat.empty_answer", concat("\"", key, "\" is empty; remove the sample"));
  }
  chat.is_text = true;
  chat.prompt = std::move(prompt);
  chat.completion = std::move(completion);
}

Conversation prompt_completion_of(const Json& sample) {
  Conversation chat;
  const Json& prompt = get(sample, "prompt");
  const Json& completion = get(sample, "completion");
  if (prompt.is_string() && completion.is_string()) {
    set_text(chat, prompt.get<std::string>(), completion.get<std::string>(), "completion");
    return chat;
  }
  add_messages(chat, list_at(sample, "prompt"), "prompt");
  chat.prompt_size = chat.messages.size();
  add_completion(chat, completion, "completion");
  return chat;
}

// One side of a pair. Its prompt is "prompt" or "conversations"; without either, it is what chosen
// and rejected have in common.
Conversation side_of(const Json& sample, const char* key, size_t num_common) {
  Conversation chat;
  const Json& answer = get(sample, key);
  const Json* const prompt = find(sample, "prompt");
  if (find(sample, "conversations") != nullptr) {
    add_system(chat, sample);
    add_turns(chat, list_at(sample, "conversations"), "conversations");
  } else if (prompt != nullptr && prompt->is_string() && answer.is_string()) {
    set_text(chat, prompt->get<std::string>(), answer.get<std::string>(), key);
    return chat;
  } else if (prompt != nullptr && prompt->is_string() && num_common > 0) {
    // "prompt" repeats what the lists begin with.
    add_turns(chat, answer, key);
    chat.prompt_size = num_common;
    return chat;
  } else if (prompt != nullptr && prompt->is_string()) {
    add_said(chat, "user", prompt->get<std::string>(), "\"prompt\"");
  } else if (prompt != nullptr) {
    add_messages(chat, list_at(sample, "prompt"), "prompt");
  } else if (answer.is_array()) {
    add_turns(chat, answer, key);
    chat.prompt_size = num_common;
    return chat;
  } else {
    fail("chat.bad_sample", "the key \"prompt\" is missing");
  }
  chat.prompt_size = chat.messages.size();
  add_completion(chat, answer, key);
  return chat;
}

std::vector<Conversation> pair_of(const Json& sample) {
  const Json& chosen = get(sample, "chosen");
  const Json& rejected = get(sample, "rejected");
  if (chosen == rejected) {
    fail("chat.equal_answers",
         "\"chosen\" and \"rejected\" are equal, so the pair expresses no preference; remove the "
         "sample");
  }
  size_t num_common = 0;
  if (chosen.is_array() && rejected.is_array()) {
    while (num_common < std::min(chosen.size(), rejected.size()) &&
           chosen[num_common] == rejected[num_common]) {
      ++num_common;
    }
  }
  return {side_of(sample, "chosen", num_common), side_of(sample, "rejected", num_common)};
}

}  // namespace

size_t invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = utf8_size(text.substr(at));
    if (size == 0) {
      return at;
    }
    at += size;
  }
  return std::string_view::npos;
}

Json parse_sample(std::string_view text) {
  if (const size_t at = invalid_utf8(text); at != std::string_view::npos) {
    fail("chat.not_utf8",
         concat("not UTF-8 at byte ", at + 1, " of the sample; convert the file to UTF-8"));
  }
  try {
    Json sample = Json::parse(text);
    if (!sample.is_object()) {
      fail("chat.not_json", concat("the sample is ", type_of(sample), ", expected a JSON object"));
    }
    return sample;
  } catch (const Json::parse_error& error) {
    const std::string what = error.what();
    const size_t colon = what.find(": ");
    fail("chat.not_json",
         concat("not valid JSON at byte ",
                error.byte,
                " of the sample: ",
                colon == std::string::npos ? what : what.substr(colon + 2)));
  } catch (const Json::exception& error) {
    fail("chat.not_json", concat("not valid JSON: ", error.what()));
  }
}

ChatFormat format_of(const Json& sample) {
  const auto has = [&](const char* key) { return sample.contains(key); };
  if (has("chosen") && has("rejected")) {
    return ChatFormat::kPreference;
  }
  if (has("messages")) {
    return ChatFormat::kMessages;
  }
  if (has("conversations")) {
    return ChatFormat::kShareGpt;
  }
  if (has("instruction") && has("output")) {
    return ChatFormat::kAlpaca;
  }
  if (has("prompt") && has("completion")) {
    return ChatFormat::kPromptCompletion;
  }
  std::string keys;
  for (const auto& [key, value] : sample.items()) {
    keys += (keys.empty() ? "" : ", ") + json_string(key);
  }
  fail(
      "chat.unknown_format",
      "the keys of the sample are those of no format (found " + (keys.empty() ? "none" : keys) +
          "); expected \"messages\", \"conversations\", \"instruction\" and \"output\", \"prompt\" "
          "and \"completion\", or \"chosen\" and \"rejected\"");
}

std::vector<Conversation> conversations_of(const Json& sample, ChatFormat format) {
  std::vector<Conversation> chats;
  switch (format) {
    case ChatFormat::kMessages:
      chats.emplace_back();
      add_messages(chats.back(), list_at(sample, "messages"), "messages");
      break;
    case ChatFormat::kShareGpt:
      chats.emplace_back();
      add_system(chats.back(), sample);
      add_turns(chats.back(), list_at(sample, "conversations"), "conversations");
      break;
    case ChatFormat::kAlpaca:
      chats.push_back(alpaca_of(sample));
      break;
    case ChatFormat::kPromptCompletion:
      chats.push_back(prompt_completion_of(sample));
      break;
    case ChatFormat::kPreference:
      chats = pair_of(sample);
      break;
    case ChatFormat::kAuto:
      return conversations_of(sample, format_of(sample));
  }
  for (Conversation& chat : chats) {
    if (!chat.is_text && chat.messages.empty()) {
      fail("chat.bad_sample", "the sample has no messages");
    }
    if (const Json* const tools = find(sample, "tools")) {
      chat.tools = tools_of(*tools);
    }
    if (const Json* const variables = find(sample, "chat_template_kwargs")) {
      if (!variables->is_object()) {
        fail("chat.bad_sample", "\"chat_template_kwargs\" is not an object");
      }
      chat.variables = *variables;
    }
  }
  return chats;
}

Json tools_of(const Json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
      return nullptr;
    }
    Json parsed = Json::parse(text, nullptr, false);
    if (parsed.is_array()) {
      return parsed.empty() ? Json() : parsed;
    }
  } else if (value.is_array()) {
    return value.empty() ? Json() : value;
  }
  fail("chat.bad_sample", "\"tools\" is neither a list nor JSON text of a list");
}

const char* format_name(ChatFormat format) {
  switch (format) {
    case ChatFormat::kMessages:
      return "messages";
    case ChatFormat::kShareGpt:
      return "sharegpt";
    case ChatFormat::kAlpaca:
      return "alpaca";
    case ChatFormat::kPromptCompletion:
      return "prompt_completion";
    case ChatFormat::kPreference:
      return "preference";
    default:
      return "auto";
  }
}

}  // namespace tenon
