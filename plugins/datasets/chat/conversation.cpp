// SPDX-License-Identifier: Apache-2.0
#include "conversation.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace tenon {
namespace {

// The value of a key; null if it is missing or null.
const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& get(const Json& object, const char* key) {
  const Json* const value = find(object, key);
  if (value == nullptr) {
    fail_sample("chat.bad_sample", concat("the key \"", key, "\" is missing"));
  }
  return *value;
}

std::string text_of(const Json& value, const std::string& place) {
  if (!value.is_string()) {
    fail_sample("chat.bad_sample", place + " is " + type_words(value) + ", expected a string");
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
    fail_sample("chat.bad_sample",
                concat("\"", key, "\" is ", type_words(value), ", expected a list"));
  }
  return value;
}

// Whether content has neither text nor a part of another kind.
bool is_blank(const Json* content) {
  if (content == nullptr) {
    return true;
  }
  if (content->is_string()) {
    const auto& text = content->get_ref<const std::string&>();
    return text.find_first_not_of(" \t\r\n") == std::string::npos;
  }
  return content->is_array() && std::all_of(content->begin(), content->end(), [](const Json& part) {
           const Json* const type = part.is_object() ? find(part, "type") : nullptr;
           const bool is_other = type != nullptr && *type != "text";
           return part.is_object() ? !is_other && is_blank(find(part, "text")) : is_blank(&part);
         });
}

// A conversation that grows, and what its sample says of all of it.
struct NewChat : Conversation {
  NewChat(KeyCheck& check, bool has_training) : keys(check) { is_trained = has_training; }
  KeyCheck& keys;
};

constexpr std::array<std::string_view, 7> kRoles = {
    "system", "developer", "user", "assistant", "tool", "function", "ipython"};

// Checks a part of a message's content. What a template does not know in it would be missing in the
// text, or be printed as an object of Python.
void check_part(const Json& part, const std::string& place) {
  constexpr std::array<std::string_view, 10> kMedia = {"image",
                                                       "image_url",
                                                       "input_image",
                                                       "video",
                                                       "video_url",
                                                       "audio",
                                                       "audio_url",
                                                       "input_audio",
                                                       "file",
                                                       "document"};
  const Json* const type = part.is_object() ? find(part, "type") : nullptr;
  if (type == nullptr || !type->is_string()) {
    fail_sample("chat.bad_sample",
                place + " is " +
                    (part.is_object() ? "an object without \"type\"" : type_words(part)) +
                    R"(, expected {"type": "text", "text": ...})");
  }
  const auto& name = type->get_ref<const std::string&>();
  if (std::find(kMedia.begin(), kMedia.end(), name) != kMedia.end()) {
    fail_sample("chat.unsupported_key",
                place + " is of the type " + json_string(name) +
                    ": media are not supported; remove the part if the texts make sense alone");
  }
  if (name == "text" && (find(part, "text") == nullptr || !find(part, "text")->is_string())) {
    fail_sample("chat.bad_sample", place + " has no \"text\" that is a string");
  }
}

// Adds a message to the conversation, after checking it.
void add_message(NewChat& chat, Json message, const std::string& place) {
  if (!message.is_object()) {
    fail_sample("chat.bad_sample", place + " is " + type_words(message) + ", expected an object");
  }
  const Json* const role = find(message, "role");
  if (role == nullptr || !role->is_string()) {
    fail_sample("chat.bad_sample", place + " has no \"role\"");
  }
  const auto name = role->get<std::string>();
  if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end()) {
    fail_sample("chat.unknown_role",
                place + " has the unknown role " + json_string(name) +
                    " (expected system, developer, user, assistant, tool, function or ipython)");
  }
  const bool is_trainable =
      take_training_keys(message, place + ": ", chat.keys).value_or(true) && chat.is_trained;
  const Json* const content = find(message, "content");
  if (content != nullptr && !content->is_string() && !content->is_array()) {
    fail_sample(
        "chat.bad_sample",
        place + ": \"content\" is " + type_words(*content) + ", expected a string or a list");
  }
  for (size_t i = 0; content != nullptr && content->is_array() && i < content->size(); ++i) {
    check_part((*content)[i], concat(place, ": part ", i + 1, " of \"content\""));
  }
  const Json* const calls = find(message, "tool_calls");
  if (name == "assistant" && is_trainable && is_blank(content) &&
      (calls == nullptr || calls->empty())) {
    fail_sample(
        "chat.empty_answer",
        place + " is an empty answer of the assistant; remove the sample, or set \"train\": false");
  }
  chat.messages.push_back(std::move(message));
  chat.is_trainable.push_back(is_trainable);
}

void add_messages(NewChat& chat, const Json& messages, const std::string& key) {
  for (size_t i = 0; i < messages.size(); ++i) {
    add_message(chat, messages[i], concat("message ", i + 1, " of \"", key, "\""));
  }
}

void add_said(NewChat& chat, const char* role, std::string text, const std::string& place) {
  add_message(chat, {{"role", role}, {"content", std::move(text)}}, place);
}

// ---- ShareGPT ----

// The call or calls in the text of a `function_call` message.
Json tool_calls_of(const std::string& text, const std::string& place) {
  Json calls = parse_inner(text, place + ": the value of the function_call");
  if (calls.is_object()) {
    calls = Json::array({calls});
  }
  Json result = Json::array();
  for (const Json& call : calls.is_array() ? calls : Json::array({nullptr})) {
    if (!call.is_object() || find(call, "name") == nullptr) {
      fail_sample(
          "chat.bad_sample",
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
    fail_sample("chat.bad_sample", place + " has no \"from\"");
  }
  const auto name = from->get<std::string>();
  const auto role = kNames.find(name);
  if (role == kNames.end()) {
    fail_sample("chat.unknown_role",
                place + " is from the unknown role " + json_string(name) +
                    " (expected system, human, gpt, function_call or observation)");
  }
  const Json* const value = find(turn, "value");
  if (value == nullptr) {
    fail_sample("chat.bad_sample", place + " has no \"value\"");
  }
  std::string text = text_of(*value, place + ": \"value\"");
  Json message = turn;
  message.erase("from");
  message.erase("value");
  message["role"] = role->second;
  if (name == "function_call") {
    message["content"] = "";
    message["tool_calls"] = tool_calls_of(text, place);
  } else {
    message["content"] = std::move(text);
  }
  return message;
}

void add_turns(NewChat& chat, const Json& turns, const std::string& key) {
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string place = concat("message ", i + 1, " of \"", key, "\"");
    add_message(chat, message_of_turn(turns[i], place), place);
  }
}

// The system message that a sample has beside its messages; "" if it has none.
std::string system_of(const Json& sample) {
  const std::string system = optional_text(sample, "system");
  const std::string other = optional_text(sample, "system_prompt");
  if (!system.empty() && !other.empty() && system != other) {
    fail_sample("chat.bad_sample", "\"system\" and \"system_prompt\" differ; keep one of them");
  }
  return system.empty() ? other : system;
}

// Checks that messages after a system message that stands beside them do not have a second one.
void check_system(const Conversation& chat) {
  if (chat.is_text) {
    fail_sample(
        "chat.bad_sample",
        "\"system\" stands beside texts, which no chat template renders; write the prompt as "
        "messages");
  }
  if (chat.messages.size() > 1 && chat.messages[1].at("role") == "system") {
    fail_sample(
        "chat.bad_sample",
        "\"system\" stands beside messages that begin with a system message; keep one of them");
  }
}

// ---- the formats ----

// The turns before the output of an Alpaca sample.
void add_instruction(NewChat& chat, const Json& sample) {
  if (const Json* const history = find(sample, "history")) {
    for (size_t i = 0; i < list_at(sample, "history").size(); ++i) {
      const Json& turn = (*history)[i];
      const std::string place = concat("turn ", i + 1, " of \"history\"");
      if (!turn.is_array() || turn.size() != 2) {
        fail_sample("chat.bad_sample", place + " is not a pair of strings");
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
}

void add_alpaca(NewChat& chat, const Json& sample) {
  add_instruction(chat, sample);
  chat.prompt_size = chat.messages.size();
  add_said(chat, "assistant", text_of(get(sample, "output"), "\"output\""), "\"output\"");
}

// Adds a completion, or an answer of a pair, to a prompt of messages.
void add_completion(NewChat& chat, const Json& completion, const std::string& key) {
  if (completion.is_array()) {
    add_turns(chat, completion, key);
  } else if (completion.is_object()) {
    add_turns(chat, Json::array({completion}), key);
  } else {
    add_said(chat, "assistant", text_of(completion, "\"" + key + "\""), "\"" + key + "\"");
  }
}

void set_text(NewChat& chat, std::string prompt, std::string completion, const char* key) {
  if (completion.find_first_not_of(" \t\r\n") == std::string::npos) {
    fail_sample("chat.empty_answer", concat("\"", key, "\" is empty; remove the sample"));
  }
  chat.is_text = true;
  chat.prompt = std::move(prompt);
  chat.completion = std::move(completion);
}

void add_prompt_completion(NewChat& chat, const Json& sample) {
  const Json& prompt = get(sample, "prompt");
  const Json& completion = get(sample, "completion");
  if (prompt.is_string() && completion.is_string()) {
    set_text(chat, prompt.get<std::string>(), completion.get<std::string>(), "completion");
    return;
  }
  if (prompt.is_string()) {
    add_said(chat, "user", prompt.get<std::string>(), "\"prompt\"");
  } else {
    add_messages(chat, list_at(sample, "prompt"), "prompt");
  }
  chat.prompt_size = chat.messages.size();
  add_completion(chat, completion, "completion");
}

// The messages that both answers begin with.
size_t num_common_messages(const Json& chosen, const Json& rejected) {
  size_t n = 0;
  if (chosen.is_array() && rejected.is_array()) {
    while (n < std::min(chosen.size(), rejected.size()) && chosen[n] == rejected[n]) {
      ++n;
    }
  }
  return n;
}

// Whether an answer begins with all messages of the prompt.
bool repeats(const Json& answer, const Json& prompt) {
  return answer.is_array() && !prompt.empty() && answer.size() > prompt.size() &&
         std::equal(prompt.begin(), prompt.end(), answer.begin());
}

// One side of a pair. Its prompt is "prompt", "conversations" or "instruction"; without these, it
// is what chosen and rejected have in common.
void add_side(NewChat& chat, const Json& sample, const char* key) {
  const auto num_common = [&] {
    return num_common_messages(get(sample, "chosen"), get(sample, "rejected"));
  };
  const Json& answer = get(sample, key);
  const Json* const prompt = find(sample, "prompt");
  if (find(sample, "conversations") != nullptr) {
    add_turns(chat, list_at(sample, "conversations"), "conversations");
  } else if (prompt == nullptr && find(sample, "instruction") != nullptr) {
    add_instruction(chat, sample);
  } else if (prompt != nullptr && prompt->is_string() && answer.is_string()) {
    set_text(chat, prompt->get<std::string>(), answer.get<std::string>(), key);
    return;
  } else if (prompt != nullptr && prompt->is_string() && num_common() == 0) {
    add_said(chat, "user", prompt->get<std::string>(), "\"prompt\"");
  } else if (prompt != nullptr && prompt->is_array() && !repeats(answer, *prompt)) {
    add_messages(chat, *prompt, "prompt");
  } else if (answer.is_array()) {
    // The answers begin with the prompt, and "prompt" may repeat it.
    const size_t before = chat.messages.size();
    add_turns(chat, answer, key);
    chat.prompt_size = before + num_common();
    return;
  } else if (prompt != nullptr) {
    list_at(sample, "prompt");  // fails
  } else {
    fail_sample("chat.bad_sample",
                "the key \"prompt\" is missing; it is needed where chosen and rejected are texts");
  }
  chat.prompt_size = chat.messages.size();
  add_completion(chat, answer, key);
}

void check_pair(const Json& sample) {
  if (get(sample, "chosen") == get(sample, "rejected")) {
    fail_sample(
        "chat.equal_answers",
        "\"chosen\" and \"rejected\" are equal, so the pair expresses no preference; remove the "
        "sample");
  }
}

void add_sample(NewChat& chat, const Json& sample, ChatFormat format, const char* side) {
  const std::string system = system_of(sample);
  if (!system.empty()) {
    add_said(chat, "system", system, "\"system\"");
  }
  switch (format) {
    case ChatFormat::kMessages:
      add_messages(chat, list_at(sample, "messages"), "messages");
      break;
    case ChatFormat::kShareGpt:
      add_turns(chat, list_at(sample, "conversations"), "conversations");
      break;
    case ChatFormat::kAlpaca:
      add_alpaca(chat, sample);
      break;
    case ChatFormat::kPromptCompletion:
      add_prompt_completion(chat, sample);
      break;
    default:
      add_side(chat, sample, side);
  }
  if (!system.empty()) {
    check_system(chat);
  }
}

}  // namespace

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
  fail_sample(
      "chat.unknown_format",
      "the keys of the sample are those of no format (found " + (keys.empty() ? "none" : keys) +
          "); expected \"messages\", \"conversations\", \"instruction\" and \"output\", \"prompt\" "
          "and \"completion\", or \"chosen\" and \"rejected\"");
}

std::vector<Conversation> conversations_of(const Json& sample, ChatFormat format, KeyCheck& check) {
  if (format == ChatFormat::kAuto) {
    return conversations_of(sample, format_of(sample), check);
  }
  check_sample_keys(sample, format, check);
  const bool is_trained = is_sample_trained(sample, check);
  const bool is_pair = format == ChatFormat::kPreference;
  if (is_pair) {
    check_pair(sample);
  }
  std::vector<Conversation> chats;
  for (const char* const side : {"chosen", "rejected"}) {
    NewChat chat(check, is_trained);
    add_sample(chat, sample, format, side);
    if (!chat.is_text && chat.messages.empty()) {
      fail_sample("chat.bad_sample", "the sample has no messages");
    }
    if (const Json* const tools = find(sample, "tools")) {
      chat.tools = tools_of(*tools);
    }
    if (const Json* const variables = find(sample, "chat_template_kwargs")) {
      if (!variables->is_object()) {
        fail_sample("chat.bad_sample", "\"chat_template_kwargs\" is not an object");
      }
      chat.variables = *variables;
    }
    chats.push_back(std::move(static_cast<Conversation&>(chat)));
    if (!is_pair) {
      break;
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
    Json parsed = parse_inner(text, "\"tools\"");
    if (parsed.is_array()) {
      return parsed.empty() ? Json() : parsed;
    }
  } else if (value.is_array()) {
    return value.empty() ? Json() : value;
  }
  fail_sample("chat.bad_sample", "\"tools\" is neither a list nor JSON text of a list");
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
