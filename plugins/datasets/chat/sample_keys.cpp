// SPDX-License-Identifier: Apache-2.0
#include "sample_keys.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <array>
#include <cctype>

namespace tenon {
namespace {

// A key with a meaning elsewhere, and what to do.
struct RefusedKey {
  std::string_view key;
  const char* why;
};

constexpr char kKto[] =
    "says whether one answer is good, as for KTO, which is not supported; make pairs of \"chosen\" "
    "and \"rejected\". If all samples are good, add the key to `ignore`";
constexpr char kMedia[] =
    "holds media, which are not supported; if the texts make sense alone, add the key to `ignore`";
constexpr char kVariable[] =
    "is a variable of the chat template; write it inside of \"chat_template_kwargs\"";
constexpr char kReference[] =
    "holds log-probabilities of a reference, which are not read; store them with `\"outputs\": "
    "\"stored\"` of the reference model, and add the key to `ignore`";
constexpr char kMargin[] =
    "is a margin of the pair, which no loss reads; to train without margins, add it to `ignore`";
constexpr char kTokens[] = "holds tokens or masks; this dataset makes them from the messages";
constexpr char kPairs[] = "is an answer of a pair; write the pair as \"chosen\" and \"rejected\"";
constexpr char kCalls[] =
    "is the old form of tools; write \"tools\": [{\"type\": \"function\", \"function\": {...}}]";

constexpr std::array kRefusedOfSamples = {RefusedKey{"label", kKto},
                                          RefusedKey{"kto_tag", kKto},
                                          RefusedKey{"is_desirable", kKto},
                                          RefusedKey{"images", kMedia},
                                          RefusedKey{"image", kMedia},
                                          RefusedKey{"videos", kMedia},
                                          RefusedKey{"video", kMedia},
                                          RefusedKey{"audios", kMedia},
                                          RefusedKey{"audio", kMedia},
                                          RefusedKey{"objects", kMedia},
                                          RefusedKey{"enable_thinking", kVariable},
                                          RefusedKey{"reasoning_effort", kVariable},
                                          RefusedKey{"documents", kVariable},
                                          RefusedKey{"ref_chosen_logps", kReference},
                                          RefusedKey{"ref_rejected_logps", kReference},
                                          RefusedKey{"reference_chosen_logps", kReference},
                                          RefusedKey{"reference_rejected_logps", kReference},
                                          RefusedKey{"margin", kMargin},
                                          RefusedKey{"input_ids", kTokens},
                                          RefusedKey{"labels", kTokens},
                                          RefusedKey{"attention_mask", kTokens},
                                          RefusedKey{"completion_mask", kTokens},
                                          RefusedKey{"assistant_masks", kTokens},
                                          RefusedKey{"loss_mask", kTokens},
                                          RefusedKey{"rejected_response", kPairs},
                                          RefusedKey{"rejected_messages", kPairs},
                                          RefusedKey{"functions", kCalls},
                                          RefusedKey{"function_call", kCalls}};

constexpr char kMask[] =
    "means opposite things in other programs; write \"train\": true or false instead";
constexpr char kParts[] =
    "selects parts of a message, which is not supported; write \"train\": true or false";
constexpr char kCall[] =
    "is the old form of a call; write \"tool_calls\": [{\"type\": \"function\", \"function\": "
    "{\"name\": ..., \"arguments\": {...}}}]";

constexpr std::array kRefusedOfMessages = {RefusedKey{"function_call", kCall},
                                           RefusedKey{"mask", kMask},
                                           RefusedKey{"loss_mask", kMask},
                                           RefusedKey{"label", kMask},
                                           RefusedKey{"labels", kMask},
                                           RefusedKey{"train_detail", kParts},
                                           RefusedKey{"training_detail", kParts},
                                           RefusedKey{"images", kMedia},
                                           RefusedKey{"image", kMedia},
                                           RefusedKey{"audio", kMedia},
                                           RefusedKey{"audios", kMedia},
                                           RefusedKey{"video", kMedia},
                                           RefusedKey{"videos", kMedia}};

// Keys that say whether to train on a message, or on all of a sample.
constexpr std::array<std::string_view, 8> kTraining = {
    "train", "training", "trainable", "loss", "weight", "loss_weight", "loss_scale", "masked"};

// Keys of messages that templates of many families read; others ignore them, as in transformers.
constexpr std::array<std::string_view, 8> kOfMessages = {"role",
                                                         "content",
                                                         "name",
                                                         "tool_calls",
                                                         "tool_call_id",
                                                         "reasoning_content",
                                                         "reasoning",
                                                         "thinking"};

constexpr std::array<std::string_view, 4> kOfAll = {
    "tools", "chat_template_kwargs", "system", "system_prompt"};

std::vector<std::string_view> keys_of(ChatFormat format) {
  switch (format) {
    case ChatFormat::kMessages:
      return {"messages"};
    case ChatFormat::kShareGpt:
      return {"conversations"};
    case ChatFormat::kAlpaca:
      return {"instruction", "input", "output", "history"};
    case ChatFormat::kPromptCompletion:
      return {"prompt", "completion"};
    case ChatFormat::kPreference:
      return {"prompt", "conversations", "chosen", "rejected", "instruction", "input", "history"};
    default:
      return {};
  }
}

template <class Keys>
bool has(const Keys& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

template <class Keys>
const RefusedKey* find_refused(const Keys& keys, std::string_view key) {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const auto& one) { return one.key == key; });
  return found == keys.end() ? nullptr : &*found;
}

// Null, and what columns and exports write for "nothing".
bool is_nothing(const Json& value) {
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty());
}

bool names_word(std::string_view text, std::string_view word) {
  const auto is_part = [&](size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (!(at > 0 && is_part(at - 1)) && !is_part(at + word.size())) {
      return true;
    }
  }
  return false;
}

void add_unknown(const std::string& key, KeyCheck& check) {
  if (!has(check.unknown, key)) {
    check.unknown.push_back(key);
  }
}

// What a key of kTraining says.
bool is_trained(std::string_view key, const Json& value, const std::string& place) {
  std::optional<bool> says;
  if (value.is_boolean()) {
    says = value.get<bool>();
  } else if (value.is_number() && key != "train" && key != "training") {
    const auto number = value.get<double>();
    if (number != 0 && number != 1) {
      fail_sample("chat.unsupported_key",
                  concat(place,
                         "\"",
                         key,
                         "\" is ",
                         value.dump(),
                         "; weights other than 0 and 1 are not supported"));
    }
    says = number == 1;
  }
  if (!says) {
    fail_sample("chat.bad_sample",
                concat(place,
                       "\"",
                       key,
                       "\" is ",
                       type_words(value),
                       ", expected ",
                       key == "train" || key == "training" ? "a boolean" : "a boolean, 0 or 1"));
  }
  return key == "masked" ? !*says : *says;
}

}  // namespace

bool is_key_of_samples(std::string_view key) {
  for (const ChatFormat format : {ChatFormat::kMessages,
                                  ChatFormat::kShareGpt,
                                  ChatFormat::kAlpaca,
                                  ChatFormat::kPromptCompletion,
                                  ChatFormat::kPreference}) {
    if (has(keys_of(format), key)) {
      return true;
    }
  }
  return has(kOfAll, key) || has(kTraining, key) || find_refused(kRefusedOfSamples, key) != nullptr;
}

void check_sample_keys(const Json& sample, ChatFormat format, KeyCheck& check) {
  const std::vector<std::string_view> own = keys_of(format);
  for (const auto& [key, value] : sample.items()) {
    if (has(own, key) || has(kOfAll, key) || has(kTraining, key) ||
        is_ignored(check.ignored, key)) {
      continue;
    }
    if (is_nothing(value)) {
      continue;
    }
    if (const RefusedKey* const refused = find_refused(kRefusedOfSamples, key)) {
      fail_sample("chat.unsupported_key", concat("\"", key, "\" ", refused->why));
    }
    add_unknown(key, check);
  }
}

bool is_sample_trained(const Json& sample, const KeyCheck& check) {
  bool result = true;
  for (const auto& [key, value] : sample.items()) {
    if (has(kTraining, key) && !value.is_null() && !is_ignored(check.ignored, key)) {
      result = is_trained(key, value, "") && result;
    }
  }
  return result;
}

std::optional<bool> take_training_keys(Json& message, const std::string& place, KeyCheck& check) {
  std::optional<bool> result;
  std::string by;
  std::vector<std::string> to_erase;
  for (const auto& [key, value] : message.items()) {
    if (is_ignored(check.ignored, key)) {
      to_erase.push_back(key);
    } else if (has(kTraining, key)) {
      to_erase.push_back(key);
      if (value.is_null()) {
        continue;
      }
      const bool says = is_trained(key, value, place);
      if (result && *result != says) {
        fail_sample("chat.bad_sample", concat(place, "\"", by, "\" and \"", key, "\" contradict"));
      }
      result = says;
      by = key;
    } else if (is_nothing(value) || has(kOfMessages, key) || names_word(check.template_text, key)) {
      continue;
    } else if (const RefusedKey* const refused = find_refused(kRefusedOfMessages, key)) {
      fail_sample("chat.unsupported_key", concat(place, "\"", key, "\" ", refused->why));
    } else {
      add_unknown(key, check);
    }
  }
  for (const std::string& key : to_erase) {
    message.erase(key);
  }
  return result;
}

}  // namespace tenon
