// SPDX-License-Identifier: Apache-2.0
#include "sample_encoder.hpp"

#include <tenon/cpp/options.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

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

// Counts the bytes of the ranges that lie before places, which ascend.
class BytesBefore {
 public:
  explicit BytesBefore(const std::vector<std::pair<int64_t, int64_t>>& ranges) : ranges_(ranges) {}

  int64_t count(int64_t at) {
    while (next_ < ranges_.size() && ranges_[next_].second <= at) {
      bytes_ += ranges_[next_].second - ranges_[next_].first;
      ++next_;
    }
    return next_ < ranges_.size() && ranges_[next_].first < at ? bytes_ + at - ranges_[next_].first
                                                               : bytes_;
  }

 private:
  const std::vector<std::pair<int64_t, int64_t>>& ranges_;
  size_t next_ = 0;
  int64_t bytes_ = 0;
};

char byte_at(const std::vector<TextPiece>& pieces, int64_t at) {
  for (const TextPiece& piece : pieces) {
    if (at < static_cast<int64_t>(piece.bytes.size())) {
      return piece.bytes[static_cast<size_t>(at)];
    }
    at -= static_cast<int64_t>(piece.bytes.size());
  }
  return '\0';
}

// Whether a token before a text to train on has no more of it than white space. Special tokens may
// take the white space that follows them ("rstrip"), that of an answer too.
bool takes_only_space(const std::vector<TextPiece>& pieces,
                      const std::vector<std::pair<int64_t, int64_t>>& trained,
                      const Token& token) {
  if (overlaps(trained, token.begin, token.begin + 1)) {
    return false;
  }
  const auto is_space = [&](int64_t at) {
    const char byte = byte_at(pieces, at);
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
  };
  for (int64_t at = token.begin + 1; at < token.end; ++at) {
    if (overlaps(trained, at, at + 1) && !is_space(at)) {
      return false;
    }
  }
  return !is_space(token.begin);
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
                             const TokenizerFiles& files,
                             const ChatOptions& options,
                             const std::optional<std::string>& template_text)
    : tokenizer_(std::move(tokenizer)), options_(options) {
  const tenon_tokenizer_info info = tokenizer_.describe();
  bos_ = info.bos;
  eos_ = info.eos;
  for (size_t i = 0; i < info.num_specials; ++i) {
    const tenon_special_token& special = info.specials_ref[i];
    specials_[special.name] = special.text;
  }
  // Another day must not give other tokens.
  specials_["strftime_now"] = options.date ? Json(*options.date) : Json();
  if (template_text) {
    template_text_ = *template_text;
  } else if (info.chat_template_ref != nullptr) {
    template_text_ = info.chat_template_ref;
    tool_template_text_ = tool_template_of(files);
  }
  if (!template_text_.empty()) {
    template_.emplace(host, template_text_);
  }
  if (!tool_template_text_.empty()) {
    tool_template_.emplace(host, tool_template_text_);
  }
}

bool SampleEncoder::prints_date() const {
  return (template_text_ + tool_template_text_).find("strftime_now") != std::string::npos;
}

EncodedText SampleEncoder::encode(Conversation chat, ChatFormat format) const {
  const bool has_completion = format == ChatFormat::kAlpaca ||
                              format == ChatFormat::kPromptCompletion ||
                              format == ChatFormat::kPreference;
  TrainOn train_on = options_.train_on;
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

std::vector<ChatPiece> SampleEncoder::render(const Conversation& chat, TrainOn train_on) const {
  if (!template_) {
    TENON_FAIL(TENON_INVALID,
               "chat.no_template",
               "the tokenizer has no chat template, which messages need; set `template` to a file "
               "with one");
  }
  Json variables = specials_;
  variables.update(chat.variables);
  ChatRequest request;
  request.messages = chat.messages.dump();
  request.tools = chat.tools.is_null() ? std::string() : chat.tools.dump();
  request.variables = variables.dump();
  const bool has_untrained = std::find(chat.is_trainable.begin(), chat.is_trainable.end(), false) !=
                             chat.is_trainable.end();
  request.find_answers = train_on != TrainOn::kAll;
  request.find_untrained = train_on == TrainOn::kAll && has_untrained;
  const bool is_for_tools = tool_template_ && !chat.tools.is_null();
  try {
    return (is_for_tools ? *tool_template_ : *template_).render(request);
  } catch (const Error& error) {
    if (std::string_view(error.id()) != "template.changed_text") {
      throw;
    }
    const std::string text = is_for_tools ? tool_template_text_ : template_text_;
    const char* const tagged = tagged_template_for(text);
    throw Error(error.code(),
                error.id(),
                error.what() + (tagged == nullptr
                                    ? std::string("; option `train_on`: \"last\", or `template`")
                                    : concat("; option `train_on`: \"last\", or "
                                             "`tagged_template`: \"",
                                             tagged,
                                             "\"")));
  }
}

EncodedText SampleEncoder::encode_messages(Conversation& chat, TrainOn train_on) const {
  const size_t num_messages = chat.messages.size();
  size_t last = num_messages;
  for (size_t i = 0; i < num_messages; ++i) {
    last = chat.messages[i].at("role") == "assistant" ? i : last;
  }
  // Only what is trained has to be found in the rendering.
  for (size_t i = 0; i < num_messages; ++i) {
    const bool is_chosen = train_on == TrainOn::kAll || train_on == TrainOn::kAssistant ||
                           (train_on == TrainOn::kLast && i == last) ||
                           (train_on == TrainOn::kCompletion && i >= chat.prompt_size);
    if (!is_chosen) {
      chat.is_trainable[i] = false;
    }
    if (!chat.is_trainable[i]) {
      chat.messages[i]["train"] = false;
    }
  }
  const std::vector<ChatPiece> pieces = render(chat, train_on);
  Ranges trained;
  std::vector<TextPiece> texts;
  texts.reserve(pieces.size());
  int64_t at = 0;
  for (const ChatPiece& piece : pieces) {
    const auto end = at + static_cast<int64_t>(piece.text.size());
    const bool is_trained = piece.answer < 0 ? train_on == TrainOn::kAll
                                             : chat.is_trainable[static_cast<size_t>(piece.answer)];
    if (is_trained) {
      add_range(trained, at, end);
    }
    texts.push_back({piece.text, piece.is_template});
    at = end;
  }
  return marked(texts, 0, trained);
}

// Whether special tokens in the texts of prompt and completion are tokens.
bool SampleEncoder::recognizes_special_tokens(const Conversation& chat) const {
  if (options_.special_tokens != SpecialTokens::kError) {
    return options_.special_tokens == SpecialTokens::kRecognize;
  }
  for (const std::string* const text : {&chat.prompt, &chat.completion}) {
    const size_t at = special_tokens_.find(*text);
    if (at != std::string::npos) {
      TENON_FAIL(TENON_INVALID,
                 "chat.special_token",
                 "the text has a special token at ",
                 json_string(text->substr(at, 24)),
                 ", and the option `special_tokens` does not say what it is; set it to "
                 "\"recognize\" if a template has rendered the text, or to \"text\" if users wrote "
                 "it");
    }
  }
  return false;
}

EncodedText SampleEncoder::encode_text(const Conversation& chat, TrainOn train_on) const {
  const auto prompt = static_cast<int64_t>(chat.prompt.size());
  const auto whole = prompt + static_cast<int64_t>(chat.completion.size());
  Ranges trained;
  add_range(trained, train_on == TrainOn::kAll ? 0 : prompt, whole);
  if (!chat.is_trained) {
    trained.clear();
  }
  const bool recognizes = recognizes_special_tokens(chat);
  EncodedText text = marked(
      {{chat.prompt, recognizes}, {chat.completion, recognizes}}, TENON_ENCODE_AROUND, trained);
  const auto is_bos = [&](size_t i) {
    return i < text.tokens.size() && bos_ >= 0 &&
           (text.tokens[i] & ~kTrained) == static_cast<MarkedToken>(bos_);
  };
  if (recognizes && is_bos(0) && is_bos(1)) {  // one by the vocabulary, one that the text has
    text.tokens.erase(text.tokens.begin());
    text.bytes.erase(text.bytes.begin());
  }
  if (eos_ >= 0 && chat.is_trained) {
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
  BytesBefore bytes(trained);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    const bool is_trained = token.begin < token.end && overlaps(trained, token.begin, token.end) &&
                            !takes_only_space(pieces, trained, token);
    text.tokens.push_back(static_cast<MarkedToken>(token.id) | (is_trained ? kTrained : 0));
    if (is_trained) {
      const int64_t before = last ? bytes.count(token.begin) : 0;
      if (last) {
        text.bytes[*last] = static_cast<uint32_t>(std::max<int64_t>(before - before_last, 0));
      }
      last = i;
      before_last = std::max(before, before_last);
    }
  }
  if (last) {
    text.bytes[*last] = static_cast<uint32_t>(bytes.count(INT64_MAX) - before_last);
  }
  return text;
}

}  // namespace tenon
