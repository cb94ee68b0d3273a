// SPDX-License-Identifier: Apache-2.0
//
// A question with choices, read from a line of JSON, and the text that comes before a choice.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct ChoiceQuestion {
  std::string context;  // the prompt, with values of the line in place of {KEY}
  std::vector<std::string> choices;
  int64_t answer = 0;  // index of the right choice
};

// Reads a question from a JSON object with "choices", a list of texts, and "answer", the index of
// the right one from 0. `prompt` may name further texts of the object, such as {question}.
//
// Errors   multiple_choice.bad_question, with what is wrong; the caller adds file and line
ChoiceQuestion parse_question(std::string_view json, const std::string& prompt);

// Number of Unicode code points in valid UTF-8.
int64_t num_characters(std::string_view text);

}  // namespace tenon
