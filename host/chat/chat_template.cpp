// SPDX-License-Identifier: Apache-2.0

#include "host/chat/chat_template.hpp"

#include "host/chat/gained_text.hpp"
#include "host/chat/template_functions.hpp"
#include "host/chat/template_program.hpp"
#include "host/error/status.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <utility>

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kTrainKey[] = "train";
constexpr char kClock[] = "strftime_now";

struct Answer {
  size_t begin;
  size_t end;
  int64_t message;
};

[[noreturn]] void fail(const char* id, const std::string& message) {
  throw StatusError(TENON_INVALID, id, message);
}

std::string role_of(const Json& message) {
  const auto role = message.find("role");
  return role != message.end() && role->is_string() ? role->get<std::string>() : "";
}

std::string message_words(size_t i) {
  return formatted("message {}", i + 1);
}

// Cuts the text at the ends of answers.
std::vector<ChatPiece> pieces_of(const TemplateString& text, const std::vector<Answer>& answers) {
  std::vector<ChatPiece> pieces;
  size_t next = 0;
  size_t at = 0;
  for (const jinja::string_part& part : text.parts) {
    const size_t end = at + part.val.size();
    size_t begin = at;
    while (begin < end) {
      while (next < answers.size() && answers[next].end <= begin) {
        ++next;
      }
      const bool is_answer = next < answers.size() && answers[next].begin <= begin;
      const size_t stop = next == answers.size() ? end
                          : is_answer            ? std::min(end, answers[next].end)
                                                 : std::min(end, answers[next].begin);
      const int64_t answer = is_answer ? answers[next].message : -1;
      std::string piece = part.val.substr(begin - at, stop - begin);
      if (!pieces.empty() && pieces.back().is_template == !part.is_input &&
          pieces.back().answer == answer) {
        pieces.back().text += piece;
      } else {
        pieces.push_back({std::move(piece), !part.is_input, answer});
      }
      begin = stop;
    }
    at = end;
  }
  return pieces;
}

}  // namespace

// The renderings of one request.
class ChatTemplate::Rendering {
 public:
  Rendering(TemplateProgram& program, const ChatRequest& request)
      : program_(program), request_(request) {
    if (!request.messages.is_array()) {
      fail("template.failed", "the messages are not a list");
    }
    for (size_t i = 0; i < request.messages.size(); ++i) {
      if (!request.messages[i].is_object()) {
        fail("template.failed", message_words(i) + " is not an object");
      }
    }
    if (!request.tools.is_null() && !request.tools.is_array()) {
      fail("template.failed", "the tools are not a list");
    }
    if (!request.variables.is_object()) {
      fail("template.failed", "the variables are not an object");
    }
    convert();
  }

  std::vector<ChatPiece> run() {
    const size_t n = request_.messages.size();
    TemplateProgram::Result whole = render(n, request_.add_generation_prompt);
    std::vector<Answer> answers;
    if (request_.find != FindText::kNothing) {
      const bool is_tagged = program_.marks_answers() && request_.find == FindText::kAnswers;
      answers = is_tagged ? tagged_answers(whole) : gained_answers(whole);
    }
    return pieces_of(whole.text, answers);
  }

 private:
  // Templates build tokens from roles, as in '<|' + role + '|>'. So the name of a role counts as
  // the template's, unless it could contain a token by itself.
  TemplateValue value_of_message(const Json& message) const {
    Json without_key;
    const bool has_key = request_.find != FindText::kNothing && message.contains(kTrainKey);
    if (has_key) {
      without_key = message;
      without_key.erase(kTrainKey);
    }
    TemplateValue value = tenon::value_of_message(has_key ? without_key : message);
    const auto role = message.is_object() ? message.find("role") : message.end();
    if (role != message.end() && role->is_string()) {
      const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
      if (std::ranges::all_of(role->get_ref<const std::string&>(), is_plain)) {
        value->insert(jinja::mk_val<jinja::value_string>(std::string("role")),
                      value_of_json(*role, Origin::kTemplate));
      }
    }
    return value;
  }

  void convert() {
    try {
      for (const Json& message : request_.messages) {
        messages_.push_back(value_of_message(message));
        message_numbers_.emplace(messages_.back().get(), message_numbers_.size());
        const auto train = message.find(kTrainKey);
        is_trained_.push_back(train == message.end() || !train->is_boolean() || train->get<bool>());
      }
      // A template sees all of these, as in transformers.
      variables_ = {{"tools", value_of_json(request_.tools, Origin::kInput)},
                    {"documents", value_of_json(Json(), Origin::kInput)}};
      for (const auto& [name, value] : request_.variables.items()) {
        const Origin origin = name == "documents" ? Origin::kInput : Origin::kTemplate;
        variables_.emplace_back(
            name, name == kClock ? clock_of_date(value) : value_of_json(value, origin));
      }
    } catch (const std::runtime_error& error) {
      fail("template.failed", error.what());
    }
  }

  // Renders the first n messages.
  TemplateProgram::Result render(size_t n, bool add_generation_prompt) {
    auto variables = variables_;
    variables.emplace_back("messages",
                           jinja::mk_val<jinja::value_array>(std::vector<TemplateValue>(
                               messages_.begin(), messages_.begin() + static_cast<ptrdiff_t>(n))));
    variables.emplace_back("add_generation_prompt",
                           jinja::mk_val<jinja::value_bool>(add_generation_prompt));
    try {
      const bool is_whole = n == messages_.size();
      return program_.render(variables, is_whole ? &message_numbers_ : nullptr);
    } catch (const TemplateError& error) {
      const std::string which =
          n == messages_.size() ? ""
                                : formatted(" (rendering the messages before message {})", n + 1);
      throw StatusError(TENON_INVALID,
                        error.is_limit() ? "template.too_long" : "template.failed",
                        "the chat template failed: " + std::string(error.what()) + which);
    }
  }

  std::vector<size_t> assistants() const {
    std::vector<size_t> indices;
    for (size_t i = 0; i < request_.messages.size(); ++i) {
      if (role_of(request_.messages[i]) == "assistant") {
        indices.push_back(i);
      }
    }
    return indices;
  }

  std::vector<Answer> tagged_answers(const TemplateProgram::Result& whole) {
    const std::vector<size_t> indices = assistants();
    std::vector<Answer> answers;
    for (const auto& [begin, end] : whole.answers) {
      answers.push_back({begin, end, -1});
    }
    if (answers.size() == indices.size()) {
      for (size_t i = 0; i < answers.size(); ++i) {
        answers[i].message = static_cast<int64_t>(indices[i]);
      }
      return answers;
    }
    // A message has the answers that the rendering gains by it.
    size_t next = 0;
    for (const size_t index : indices) {
      const size_t n = render(index + 1, false).answers.size();
      for (; next < n && next < answers.size(); ++next) {
        answers[next].message = static_cast<int64_t>(index);
      }
    }
    if (next != answers.size()) {
      fail("template.bad_answers",
           formatted("the template marks {} parts with {% generation %}, and {} of them belong to "
                     "messages of the assistant",
                     answers.size(),
                     next));
    }
    return answers;
  }

  std::vector<Answer> gained_answers(const TemplateProgram::Result& whole) {
    std::vector<size_t> wanted;
    for (size_t i = 0; i < is_trained_.size(); ++i) {
      const bool is_answer = role_of(request_.messages[i]) == "assistant";
      if (request_.find == FindText::kUntrained ? !is_trained_[i] : is_answer && is_trained_[i]) {
        wanted.push_back(i);
      }
    }
    const GainedText::Render render_some = [this](size_t n, bool add_generation_prompt) {
      return render(n, add_generation_prompt);
    };
    GainedText gained(whole,
                      request_.add_generation_prompt ? GainedText::EndsWithPrompt::kYes
                                                     : GainedText::EndsWithPrompt::kNo,
                      request_.messages,
                      render_some);
    const std::vector<TextRange> ranges =
        request_.find == FindText::kUntrained ? gained.texts(wanted) : gained.answers(wanted);
    std::vector<Answer> answers;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (ranges[i].begin < ranges[i].end) {
        answers.push_back({ranges[i].begin, ranges[i].end, static_cast<int64_t>(wanted[i])});
      }
    }
    return answers;
  }

  TemplateProgram& program_;
  const ChatRequest& request_;
  std::vector<TemplateValue> messages_;
  std::unordered_map<const jinja::value_t*, size_t> message_numbers_;
  std::vector<bool> is_trained_;  // [messages] without "train": false
  std::vector<std::pair<std::string, TemplateValue>> variables_;
};

ChatTemplate::ChatTemplate(std::string source) : source_(std::move(source)) {
  std::unique_ptr<TemplateProgram> program = take_program();
  has_generation_tags_ = program->marks_answers();
  idle_.push_back(std::move(program));
}

ChatTemplate::~ChatTemplate() = default;

std::unique_ptr<TemplateProgram> ChatTemplate::take_program() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<TemplateProgram> program = std::move(idle_.back());
      idle_.pop_back();
      return program;
    }
  }
  try {
    return std::make_unique<TemplateProgram>(source_);
  } catch (const TemplateError& error) {
    fail("template.invalid", "the chat template is invalid: " + std::string(error.what()));
  }
}

std::vector<ChatPiece> ChatTemplate::render(const ChatRequest& request) const {
  std::unique_ptr<TemplateProgram> program = take_program();
  std::vector<ChatPiece> pieces = Rendering(*program, request).run();
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(program));
  return pieces;
}

}  // namespace tenon
