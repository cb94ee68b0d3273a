// SPDX-License-Identifier: Apache-2.0
//
// Turns a conversation into tokens, each marked as trained on or not. A token is trained on if one
// of its bytes lies in a text to train on.
// Threads: any; const functions run concurrently.
#pragma once

#include <tenon/cpp/chat_template.hpp>
#include <tenon/cpp/tokenizer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conversation.hpp"
#include "tagged_templates.hpp"

namespace tenon {

// A token id, with kTrained if the token is trained on.
using MarkedToken = uint32_t;
inline constexpr MarkedToken kTrained = MarkedToken{1} << 31;

// A text as tokens.
struct EncodedText {
  std::vector<MarkedToken> tokens;
  // [tokens] bytes of the trained text that a token stands for: from its first byte to that of the
  // next token that is trained on; 0 for other tokens. They add up to the trained text.
  std::vector<uint32_t> bytes;
};

class SampleEncoder {
 public:
  // `files` are those of the tokenizer. `template_text` takes the place of its own templates;
  // `options` are borrowed.
  //
  // Errors   errors of the template
  SampleEncoder(const Host& host,
                TokenizerRef tokenizer,
                const TokenizerFiles& files,
                const ChatOptions& options,
                const std::optional<std::string>& template_text);

  // Errors   chat.cannot_train: `train_on` does not fit the format; chat.no_template: there is none;
  //          chat.special_token: a text has one, and no option says what it is; errors of template
  //          and tokenizer
  EncodedText encode(Conversation chat, ChatFormat format) const;

  // Sets the date that templates print, for templates whose recipe gives none.
  void set_date(const std::string& date) { specials_["strftime_now"] = date; }
  // Whether a template may print the date.
  bool prints_date() const;

  // The texts of the templates: that for all chats, and that for chats with tools, if it differs.
  const std::string& template_text() const { return template_text_; }
  const std::string& tool_template_text() const { return tool_template_text_; }

 private:
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;

  EncodedText encode_messages(Conversation& chat, TrainOn train_on) const;
  EncodedText encode_text(const Conversation& chat, TrainOn train_on) const;
  std::vector<ChatPiece> render(const Conversation& chat, TrainOn train_on) const;
  bool recognizes_special_tokens(const Conversation& chat) const;
  EncodedText marked(const std::vector<TextPiece>& pieces,
                     uint32_t flags,
                     const Ranges& trained) const;

  TokenizerRef tokenizer_;
  mutable SpecialTokenSearch special_tokens_{tokenizer_};
  const ChatOptions& options_;
  int64_t bos_ = -1;
  int64_t eos_ = -1;
  Json specials_ = Json::object();
  std::string template_text_;
  std::string tool_template_text_;
  std::optional<ChatTemplate> template_;
  std::optional<ChatTemplate> tool_template_;
};

}  // namespace tenon
