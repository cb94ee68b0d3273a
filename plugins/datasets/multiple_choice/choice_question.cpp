// SPDX-License-Identifier: Apache-2.0
#include "choice_question.hpp"

#include <tenon/cpp/guard.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& message) {
  throw Error(TENON_INVALID, "multiple_choice.bad_question", message);
}

const Json& get(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    fail("the key \"" + key + "\" is missing");
  }
  return *found;
}

const std::string& text_at(const Json& object, const std::string& key) {
  const Json& value = get(object, key);
  if (!value.is_string()) {
    fail("\"" + key + "\" is " + value.type_name() + ", expected a string");
  }
  return value.get_ref<const std::string&>();
}

// Returns the prompt with {KEY} replaced. Other braces stay: "{", "{ x }".
std::string filled(const std::string& prompt, const Json& object) {
  std::string text;
  for (size_t at = 0; at < prompt.size();) {
    const size_t end = prompt[at] == '{' ? prompt.find_first_of("{}", at + 1) : std::string::npos;
    const bool is_key =
        end != std::string::npos && prompt[end] == '}' && end > at + 1 &&
        std::all_of(prompt.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                    prompt.begin() + static_cast<std::ptrdiff_t>(end),
                    [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (is_key) {
      text += text_at(object, prompt.substr(at + 1, end - at - 1));
      at = end + 1;
    } else {
      text += prompt[at++];
    }
  }
  return text;
}

}  // namespace

ChoiceQuestion parse_question(std::string_view json, const std::string& prompt) {
  Json object;
  try {
    object = Json::parse(json);
  } catch (const Json::parse_error& error) {
    fail(concat("the line is not valid JSON in UTF-8, at byte ", error.byte));
  }
  if (!object.is_object()) {
    fail(concat("the line is ", object.type_name(), ", expected an object"));
  }
  ChoiceQuestion question;
  question.context = filled(prompt, object);
  const Json& choices = get(object, "choices");
  if (!choices.is_array() || choices.size() < 2) {
    fail("\"choices\" is not a list of at least two texts");
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i].is_string() || choices[i].get_ref<const std::string&>().empty()) {
      fail(concat("choice ", i, " is not a text of at least one character"));
    }
    question.choices.push_back(choices[i].get<std::string>());
    const auto begin = question.choices.begin();
    if (std::find(begin, question.choices.end() - 1, question.choices.back()) !=
        question.choices.end() - 1) {
      fail(concat("choice ", i, " is equal to an earlier one"));
    }
  }
  const Json& answer = get(object, "answer");
  if (!answer.is_number_integer() || answer.get<int64_t>() < 0 ||
      answer.get<int64_t>() >= static_cast<int64_t>(choices.size())) {
    fail(concat("\"answer\" is ",
                answer.dump(),
                ", expected the index of a choice, from 0 to ",
                choices.size() - 1));
  }
  question.answer = answer.get<int64_t>();
  return question;
}

int64_t num_characters(std::string_view text) {
  return std::count_if(
      text.begin(), text.end(), [](unsigned char byte) { return (byte & 0xc0) != 0x80; });
}

}  // namespace tenon
