// SPDX-License-Identifier: Apache-2.0
//
// A parsed template. The engine's lexer and parser make its tree, template_nodes.hpp executes it.
// Threads: one at a time.
#pragma once

#include "host/chat/template_budget.hpp"
#include "host/chat/template_values.hpp"

#include <jinja/runtime.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon {

// An error of a template. The message names the line, but not the template.
class TemplateError : public std::runtime_error {
 public:
  TemplateError(const std::string& message, bool is_limit)
      : std::runtime_error(message), is_limit_(is_limit) {}
  // True if a bound of TemplateLimits was exceeded.
  bool is_limit() const { return is_limit_; }

 private:
  bool is_limit_;
};

class TemplateProgram {
 public:
  // Errors   TemplateError for a syntax error
  explicit TemplateProgram(const std::string& source);
  TemplateProgram(const TemplateProgram&) = delete;
  TemplateProgram& operator=(const TemplateProgram&) = delete;

  // True if the template has {% generation %} tags.
  bool marks_answers() const { return marks_answers_; }

  struct Result {
    TemplateString text;
    std::vector<std::pair<size_t, size_t>> answers;  // byte ranges of {% generation %}
    std::vector<size_t> prints;                      // where statements printed, outside of macros
    // [messages] see TemplateOutput; empty: not asked for, or no loop came to all messages
    std::vector<size_t> message_starts;
  };
  // Renders the template with the variables. `messages` has the number of each message; null: no
  // message_starts.
  //
  // Errors   TemplateError
  Result render(const std::vector<std::pair<std::string, TemplateValue>>& variables,
                const std::unordered_map<const jinja::value_t*, size_t>* messages = nullptr);

 private:
  std::string source_;
  std::unique_ptr<jinja::program> program_;
  bool marks_answers_ = false;
  TemplateBudget budget_;
};

}  // namespace tenon
