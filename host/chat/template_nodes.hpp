// SPDX-License-Identifier: Apache-2.0
//
// Replaces nodes of a parsed template by nodes that count their work (template_budget.hpp), have
// Jinja's meaning (template_functions.hpp) and print to one output. {% generation %} thus knows
// which part of the output it encloses, without marks in the text.
// Threads: one rendering.
#pragma once

#include "host/chat/template_budget.hpp"
#include "host/chat/template_values.hpp"

#include <cstddef>
#include <jinja/runtime.h>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon {

// {% generation %} reaches the parser as {% call <this>() %}, which no template can write.
inline constexpr char kAnswerFunction[] = "generation tag";

// What a rendering has printed so far.
struct TemplateOutput {
  explicit TemplateOutput(TemplateBudget& limits) : budget(limits) { current_ = this; }
  ~TemplateOutput() { current_ = nullptr; }
  TemplateOutput(const TemplateOutput&) = delete;
  TemplateOutput& operator=(const TemplateOutput&) = delete;
  // That of the calling thread.
  static TemplateOutput& current() { return *current_; }

  TemplateBudget& budget;
  TemplateString text;
  int depth = 0;                                   // of macros and blocks whose text is collected
  size_t length = 0;                               // bytes printed outside of these
  std::vector<size_t> prints;                      // where each of these prints began
  std::vector<std::pair<size_t, size_t>> answers;  // byte ranges of {% generation %}
  // Index of each message by its value; null: nobody asks for message_starts.
  const std::unordered_map<const jinja::value_t*, size_t>* messages = nullptr;
  // [messages] where the last loop over the messages came to each of them; npos: none did.
  std::vector<size_t> message_starts;

  // Called for each item of a loop.
  void begin_item(const jinja::value_t* item) {
    if (messages == nullptr || depth > 0) {
      return;
    }
    if (const auto found = messages->find(item); found != messages->end()) {
      message_starts.resize(messages->size(), std::string::npos);
      message_starts[found->second] = length;
    }
  }

 private:
  static inline thread_local TemplateOutput* current_ = nullptr;
};

void replace_nodes(jinja::program& program);

// Executes a program of replaced nodes. Its output is the current one.
//
// Errors   exceptions of the engine
void run_template(const jinja::program& program, jinja::context& context);

}  // namespace tenon
