// SPDX-License-Identifier: Apache-2.0
#include "sample_encoder.hpp"

#include <algorithm>
#include <cstdint>

namespace tenon {
namespace {

bool overlaps(const std::vector<std::pair<int64_t, int64_t>>& ranges, int64_t begin, int64_t end) {
  // Ranges ascend and do not overlap.
  const auto after =
      std::lower_bound(ranges.begin(), ranges.end(), begin, [](const auto& range, int64_t at) {
        return range.second <= at;
      });
  return after != ranges.end() && after->first < end;
}

// The bytes of the ranges that lie before a place.
int64_t bytes_before(const std::vector<std::pair<int64_t, int64_t>>& ranges, int64_t at) {
  int64_t bytes = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin >= at) {
      break;
    }
    bytes += std::min(end, at) - begin;
  }
  return bytes;
}

std::string text_of_pieces(const std::vector<ChatPiece>& pieces) {
  std::string text;
  for (const ChatPiece& piece : pieces) {
    text += piece.text;
  }
  return text;
}

// Adds a range after those that are there.
void add_range(std::vector<std::pair<int64_t, int64_t>>& ranges, int64_t begin, int64_t end) {
  if (begin < end) {
    if (!ranges.empty() && ranges.back().second == begin) {
      ranges.back().second = end;
    } else {
      ranges.emplace_back(begin, end);
    }
  }
}

}  // namespace

SampleEncoder::SampleEncoder(const Host& host,
                             TokenizerRef tokenizer,
                             const std::optional<std::string>& template_text)
    : tokenizer_(std::move(tokenizer)) {
  const tenon_tokenizer_info info = tokenizer_.describe();
  eos_ = info.eos;
  for (size_t i = 0; i < info.num_specials; ++i) {
    const tenon_special_token& special = info.specials_ref[i];
    specials_[special.name] = special.text;
  }
  if (template_text) {
    template_text_ = *template_text;
  } else if (info.chat_template_ref != nullptr) {
    template_text_ = info.chat_template_ref;
  }
  if (!template_text_.empty()) {
    template_.emplace(host, template_text_);
  }
}

EncodedText SampleEncoder::encode(const Conversation& chat,
                                  ChatFormat format,
                                  TrainOn train_on) const {
  const bool has_completion = format == ChatFormat::kAlpaca ||
                              format == ChatFormat::kPromptCompletion ||
                              format == ChatFormat::kPreference;
  if (train_on == TrainOn::kAuto) {
    train_on = has_completion ? TrainOn::kCompletion : TrainOn::kAssistant;
  }
  if (train_on == TrainOn::kCompletion && !has_completion) {
    TENON_FAIL(TENON_INVALID,
               "chat.cannot_train",
               "`train_on` is \"completion\", which samples in format ",
               format_name(format),
               " do not have; use \"assistant\" or \"last\"");
  }
  if (!chat.is_text) {
    return encode_messages(chat, train_on);
  }
  if (train_on == TrainOn::kAssistant || train_on == TrainOn::kLast) {
    TENON_FAIL(
        TENON_INVALID,
        "chat.cannot_train",
        "`train_on` is \"assistant\" or \"last\", but the sample is text without messages; use "
        "\"completion\" or \"all\"");
  }
  return encode_text(chat, train_on);
}

std::vector<ChatPiece> SampleEncoder::render(const Conversation& chat,
                                             size_t n,
                                             bool find_answers) const {
  if (!template_) {
    TENON_FAIL(TENON_INVALID,
               "chat.no_template",
               "the tokenizer has no chat template, which messages need; set `template` to a file "
               "with one");
  }
  Json variables = specials_;
  variables.update(chat.variables);
  ChatRequest request;
  request.messages = n == chat.messages.size()
                         ? chat.messages.dump()
                         : Json(Json::array_t(chat.messages.begin(),
                                              chat.messages.begin() + static_cast<ptrdiff_t>(n)))
                               .dump();
  request.tools = chat.tools.is_null() ? std::string() : chat.tools.dump();
  request.variables = variables.dump();
  request.find_answers = find_answers;
  return template_->render(request);
}

EncodedText SampleEncoder::encode_messages(const Conversation& chat, TrainOn train_on) const {
  const size_t num_messages = chat.messages.size();
  const std::vector<ChatPiece> pieces = render(chat, num_messages, train_on != TrainOn::kAll);
  Ranges trained;
  if (train_on == TrainOn::kAll) {
    const std::string whole = text_of_pieces(pieces);
    int64_t at = 0;
    for (const auto& [begin, end] : untrained_messages(chat, whole)) {
      add_range(trained, at, begin);
      at = end;
    }
    add_range(trained, at, static_cast<int64_t>(whole.size()));
  } else {
    int64_t last = -1;
    for (size_t i = 0; i < num_messages; ++i) {
      last = chat.messages[i].at("role") == "assistant" ? static_cast<int64_t>(i) : last;
    }
    int64_t at = 0;
    for (const ChatPiece& piece : pieces) {
      const auto end = at + static_cast<int64_t>(piece.text.size());
      const bool is_answer =
          piece.answer >= 0 && chat.is_trainable[static_cast<size_t>(piece.answer)];
      if (is_answer && (train_on == TrainOn::kAssistant ||
                        (train_on == TrainOn::kLast && piece.answer == last) ||
                        (train_on == TrainOn::kCompletion &&
                         piece.answer >= static_cast<int64_t>(chat.prompt_size)))) {
        add_range(trained, at, end);
      }
      at = end;
    }
  }
  std::vector<TextPiece> texts;
  texts.reserve(pieces.size());
  for (const ChatPiece& piece : pieces) {
    texts.push_back({piece.text, piece.is_template});
  }
  return marked(texts, 0, trained);
}

// The bytes of messages with "train": false: what the rendering gains by each.
SampleEncoder::Ranges SampleEncoder::untrained_messages(const Conversation& chat,
                                                        const std::string& whole) const {
  Ranges ranges;
  for (size_t i = 0; i < chat.is_trainable.size(); ++i) {
    if (chat.is_trainable[i]) {
      continue;
    }
    const std::string before = i == 0 ? std::string() : text_of_pieces(render(chat, i, false));
    const std::string with = text_of_pieces(render(chat, i + 1, false));
    if (whole.compare(0, with.size(), with) != 0 || with.compare(0, before.size(), before) != 0) {
      TENON_FAIL(TENON_INVALID,
                 "chat.changed_text",
                 "message ",
                 i + 1,
                 " has \"train\": false, but the chat template renders it differently when other "
                 "messages follow, so its text cannot be found; use `train_on`: \"assistant\"");
    }
    add_range(ranges, static_cast<int64_t>(before.size()), static_cast<int64_t>(with.size()));
  }
  return ranges;
}

EncodedText SampleEncoder::encode_text(const Conversation& chat, TrainOn train_on) const {
  const auto prompt = static_cast<int64_t>(chat.prompt.size());
  const auto whole = prompt + static_cast<int64_t>(chat.completion.size());
  Ranges trained;
  add_range(trained, train_on == TrainOn::kAll ? 0 : prompt, whole);
  EncodedText text =
      marked({{chat.prompt, false}, {chat.completion, false}}, TENON_ENCODE_AROUND, trained);
  if (eos_ >= 0) {
    const auto eos = static_cast<MarkedToken>(eos_);
    if (text.tokens.empty() || (text.tokens.back() & ~kTrained) != eos) {
      text.tokens.push_back(eos);
      text.bytes.push_back(0);
    }
    text.tokens.back() |= kTrained;  // the end of the completion, whoever wrote it
  }
  return text;
}

EncodedText SampleEncoder::marked(const std::vector<TextPiece>& pieces,
                                  uint32_t flags,
                                  const Ranges& trained) const {
  EncodedText text;
  const std::vector<Token> tokens = tokenizer_.encode_pieces(pieces, flags);
  text.tokens.reserve(tokens.size());
  text.bytes.resize(tokens.size());
  // Of the last token that is trained on: its number, and the trained bytes before its first one.
  std::optional<size_t> last;
  int64_t before_last = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    const bool is_trained = token.begin < token.end && overlaps(trained, token.begin, token.end);
    text.tokens.push_back(static_cast<MarkedToken>(token.id) | (is_trained ? kTrained : 0));
    if (is_trained) {
      const int64_t before = last ? bytes_before(trained, token.begin) : 0;
      if (last) {
        text.bytes[*last] = static_cast<uint32_t>(std::max<int64_t>(before - before_last, 0));
      }
      last = i;
      before_last = std::max(before, before_last);
    }
  }
  if (last) {
    text.bytes[*last] = static_cast<uint32_t>(bytes_before(trained, INT64_MAX) - before_last);
  }
  return text;
}

}  // namespace tenon
