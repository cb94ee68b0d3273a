// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tenon/cpp/options.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../special_text.hpp"

namespace tenon {

enum class ChatFormat { kAuto, kMessages, kShareGpt, kAlpaca, kPromptCompletion, kPreference };
enum class TrainOn { kAuto, kAssistant, kLast, kCompletion, kAll };
enum class Overlong { kDrop, kCut, kSplit, kError };
enum class BadSamples { kError, kSkip };

struct ChatOptions {
  std::vector<std::string> files;
  ComponentOption tokenizer;
  ChatFormat format = ChatFormat::kAuto;
  std::optional<std::string> chat_template;    // a file
  std::optional<std::string> tagged_template;  // a name
  std::optional<std::string> date;             // YYYY-MM-DD
  SpecialTokens special_tokens = SpecialTokens::kError;
  BadSamples bad_samples = BadSamples::kError;
  std::vector<std::string> ignore;  // keys
  TrainOn train_on = TrainOn::kAuto;
  std::optional<int64_t> max_length;
  Overlong overlong = Overlong::kDrop;
  std::optional<std::string> tools;  // a file
  std::optional<std::string> cache;  // a folder; "": none
  bool label_bytes = false;
};

}  // namespace tenon
