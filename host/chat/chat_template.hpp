// SPDX-License-Identifier: Apache-2.0
//
// Renders chats with the Jinja template of a model. The result is text in pieces: what the template
// wrote, what came from messages, and which of it are answers of the assistant.
//
// Answers. A template with {% generation %} tags marks them. For any other template, the answer of
// a message is what the rendering gains by it: from the end of the rendering of all messages before
// it, with the prompt for an answer, to the end of the rendering with it. This counts the end of
// the turn as part of the answer. The rendering must start with both; other messages may change.
// Threads: any; renderings run concurrently.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon {

class TemplateProgram;

// A part of a rendered chat.
struct ChatPiece {
  std::string text;
  bool is_template = false;  // false: from a message, a tool or a document
  int64_t answer = -1;       // index of the message whose text, as asked for, it is in; -1: none
};

// Which texts of a rendering are asked for.
enum class FindText {
  kNothing,
  kAnswers,    // of the assistant's messages, except those with "train": false
  kUntrained,  // of all messages with "train": false, roles and ends of turns included
};

// With FindText other than kNothing, templates do not see the key "train" of messages. A variable
// `strftime_now` is the date at which the function of this name stands, such as "2026-01-31"; null:
// calls of it are an error.
struct ChatRequest {
  nlohmann::ordered_json messages;                                      // a list of objects
  nlohmann::ordered_json tools;                                         // null: none
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  // "bos_token", ...
  bool add_generation_prompt = false;  // end with what precedes an answer
  FindText find = FindText::kNothing;  // set ChatPiece::answer
};

class ChatTemplate {
 public:
  // Errors   StatusError "template.invalid", with the line
  explicit ChatTemplate(std::string source);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  bool has_generation_tags() const { return has_generation_tags_; }

  // Renders a chat. The pieces are not empty; neighbors differ.
  //
  // Errors   StatusError "template.failed" for an error of the template, with the line, and for messages
  //          that it cannot take; "template.too_long"; "template.changed_text" for a rendering that
  //          does not start with the one before; "template.bad_answers" for tags that do not fit
  //          the messages
  std::vector<ChatPiece> render(const ChatRequest& request) const;

 private:
  class Rendering;
  std::unique_ptr<TemplateProgram> take_program() const;

  std::string source_;
  bool has_generation_tags_ = false;
  // A program renders one chat at a time; there are as many as threads that rendered at once.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<TemplateProgram>> idle_;
};

}  // namespace tenon
