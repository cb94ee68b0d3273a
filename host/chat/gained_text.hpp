// SPDX-License-Identifier: Apache-2.0
//
// Finds what the rendering of a chat gains by a message, by rendering the messages before it. Only
// the messages that are asked for have to leave the text before them as it is.
//
// What a template writes only while a message is the last one is no obstacle: text that ends every
// finished chat (`{{ eos_token }}` of Phi-3), and what only the prompt for an answer has (`<think>`
// of DeepSeek).
// Threads: one rendering.
#pragma once

#include "host/chat/template_program.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Bytes [begin, end) of a rendering.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

class GainedText {
 public:
  // Renders the first n messages.
  using Render = std::function<TemplateProgram::Result(size_t n, bool add_generation_prompt)>;

  enum class EndsWithPrompt { kNo, kYes };

  // `whole` is the rendering of all messages, with or without a prompt for the next answer. It,
  // `messages` and `render` are borrowed.
  GainedText(const TemplateProgram::Result& whole,
             EndsWithPrompt prompt,
             const nlohmann::ordered_json& messages,
             const Render& render);

  // The answers of messages of the assistant, without the prompt for an answer.
  //
  // Errors   StatusError template.changed_text, and those of `render`
  std::vector<TextRange> answers(const std::vector<size_t>& messages);
  // The whole texts of messages. Errors as above.
  std::vector<TextRange> texts(const std::vector<size_t>& messages);

 private:
  using Find = std::function<TextRange(size_t message)>;

  TextRange answer(size_t message);
  TextRange text_of(size_t message);
  size_t end_of_message(size_t message);
  size_t find_end(size_t message);
  std::vector<TextRange> all(const std::vector<size_t>& messages, const Find& find);
  std::vector<size_t> sample(const std::vector<size_t>& messages) const;
  std::string surroundings(size_t message) const;
  [[noreturn]] void fail(const std::string& start, size_t message, const char* what) const;

  const TemplateProgram::Result& whole_;
  EndsWithPrompt prompt_;
  const nlohmann::ordered_json& messages_;
  const Render& render_;
  std::string text_;
  // The last message whose end was found, and the end: the text of the next one begins there.
  std::optional<std::pair<size_t, size_t>> last_end_;
};

}  // namespace tenon
