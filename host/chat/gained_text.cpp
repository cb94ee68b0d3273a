// SPDX-License-Identifier: Apache-2.0

#include "host/chat/gained_text.hpp"

#include "host/chat/code_points.hpp"
#include "host/error/status.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

// Chats with more answers than this have a part of them found by rendering.
constexpr size_t kMostRendered = 32;

bool is_inside_character(const std::string& text, size_t at) {
  return at < text.size() && is_continuation(text[at]);
}

// The first part of a text after `at`, for messages.
std::string shown_at(const std::string& text, size_t at) {
  constexpr size_t kShown = 40;
  size_t end = std::min(std::min(at, text.size()) + kShown, text.size());
  while (end > at && is_inside_character(text, end)) {
    --end;
  }
  return Json(text.substr(std::min(at, text.size()), end - std::min(at, end)))
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The number of bytes at the start of both that are equal and came from the same place, message or
// template; whole characters only.
size_t common_start(const TemplateString& a, const TemplateString& b) {
  size_t at = 0;
  auto part_a = a.parts.begin();
  auto part_b = b.parts.begin();
  size_t in_a = 0;
  size_t in_b = 0;
  while (part_a != a.parts.end() && part_b != b.parts.end() &&
         part_a->is_input == part_b->is_input) {
    const size_t n = std::min(part_a->val.size() - in_a, part_b->val.size() - in_b);
    const auto first = part_a->val.begin() + static_cast<ptrdiff_t>(in_a);
    const auto end = std::mismatch(first,
                                   first + static_cast<ptrdiff_t>(n),
                                   part_b->val.begin() + static_cast<ptrdiff_t>(in_b));
    auto same = static_cast<size_t>(end.first - first);
    if (same < n) {
      while (same > 0 && (is_inside_character(part_a->val, in_a + same) ||
                          is_inside_character(part_b->val, in_b + same))) {
        --same;
      }
      return at + same;
    }
    at += n;
    in_a += n;
    in_b += n;
    if (in_a == part_a->val.size()) {
      ++part_a;
      in_a = 0;
    }
    if (in_b == part_b->val.size()) {
      ++part_b;
      in_b = 0;
    }
  }
  return at;
}

// Whether no byte after `at` came from a message.
bool is_template_after(const TemplateString& text, size_t at) {
  size_t end = 0;
  return std::ranges::all_of(text.parts, [&](const jinja::string_part& part) {
    end += part.val.size();
    return end <= at || !part.is_input;
  });
}

bool contains(const std::vector<size_t>& ascending, size_t position) {
  return std::ranges::binary_search(ascending, position);
}

}  // namespace

GainedText::GainedText(const TemplateProgram::Result& whole,
                       EndsWithPrompt prompt,
                       const Json& messages,
                       const Render& render)
    : whole_(whole),
      prompt_(prompt),
      messages_(messages),
      render_(render),
      text_(whole.text.str()) {}

std::vector<TextRange> GainedText::answers(const std::vector<size_t>& messages) {
  return all(messages, [this](size_t message) { return answer(message); });
}

std::vector<TextRange> GainedText::texts(const std::vector<size_t>& messages) {
  return all(messages, [this](size_t message) { return text_of(message); });
}

TextRange GainedText::text_of(size_t message) {
  return {message == 0 ? 0 : end_of_message(message - 1), end_of_message(message)};
}

TextRange GainedText::answer(size_t message) {
  const TemplateProgram::Result before = render_(message, true);
  const size_t size = before.text.length();
  size_t begin = common_start(before.text, whole_.text);
  if (begin < size) {
    // The prompt has more than the finished answer. They share what lies before its rest.
    constexpr const char* kWhat = "the messages before it and the prompt for an answer";
    const size_t prompt = common_start(before.text, render_(message, false).text);
    const auto is_border = [&](size_t at) {
      const char last = text_[at - 1];
      return last == '>' || last == ']' || last == '\n' || contains(whole_.prints, at) ||
             !is_template_after(part_of(whole_.text, at, std::min(at + 1, text_.size())), 0);
    };
    while (begin > prompt && !is_border(begin)) {
      --begin;
    }
    // White space that only the prompt has is a mistake of the template, not a mark.
    const std::string start = before.text.str();
    const bool is_space = start.find_first_not_of(" \t\r\n", begin) == std::string::npos;
    if (begin <= prompt || is_space || !is_template_after(before.text, begin)) {
      fail(start, message, kWhat);
    }
  }
  return {begin, std::max(begin, end_of_message(message))};
}

size_t GainedText::end_of_message(size_t message) {
  if (!last_end_ || last_end_->first != message) {
    last_end_ = {message, find_end(message)};
  }
  return last_end_->second;
}

size_t GainedText::find_end(size_t message) {
  if (message + 1 == messages_.size() && prompt_ == EndsWithPrompt::kNo) {
    return text_.size();
  }
  const TemplateProgram::Result with = render_(message + 1, false);
  const size_t size = with.text.length();
  const size_t same = common_start(with.text, whole_.text);
  if (same == size) {
    return size;
  }
  // What closes every chat may follow, if it is printed on its own.
  const auto after = std::ranges::upper_bound(with.prints, same);
  if (after != with.prints.begin()) {
    const size_t end = *std::prev(after);
    const std::string closing = part_of(with.text, end, size).str();
    if (end > 0 && contains(whole_.prints, end) && text_.ends_with(closing) &&
        is_template_after(with.text, end)) {
      const bool is_gained =
          message == 0 || end > common_start(render_(message, false).text, whole_.text);
      if (is_gained) {
        return end;
      }
    }
  }
  fail(with.text.str(), message, "the messages up to it");
}

void GainedText::fail(const std::string& start, size_t message, const char* what) const {
  const auto mismatch = std::ranges::mismatch(text_, start);
  const auto at = static_cast<size_t>(mismatch.in2 - start.begin());
  throw StatusError(
      TENON_INVALID,
      "template.changed_text",
      formatted("message {}: the rendering does not start with that of {}: at byte {} it is ",
                message + 1,
                what,
                at) +
          shown_at(text_, at) + ", expected " + shown_at(start, at) +
          "; train on the last answer only, or use a template with {% generation %} tags around "
          "what the assistant writes");
}

std::vector<TextRange> GainedText::all(const std::vector<size_t>& messages, const Find& find) {
  std::vector<TextRange> ranges;
  if (messages.size() <= kMostRendered || whole_.message_starts.size() != messages_.size()) {
    for (const size_t message : messages) {
      ranges.push_back(find(message));
    }
    return ranges;
  }
  // Rendering the messages before each answer takes time that grows with the square of their
  // number. So a sample is found by rendering. If all of it lies at the same place of its round of
  // the template's loop over the messages, the others do too.
  std::vector<size_t> starts = whole_.message_starts;
  starts.push_back(text_.size());
  std::vector<std::pair<size_t, TextRange>> found;
  for (const size_t message : sample(messages)) {
    found.emplace_back(message, find(message));
  }
  const auto& [first, range] = found.front();
  const size_t header = range.begin - std::min(range.begin, starts[first]);
  const std::string prompt = text_.substr(range.begin - header, header);
  // A message that no loop came to has no start: npos.
  const auto fits = [&](size_t message) {
    return starts[message] <= text_.size() && starts[message + 1] <= text_.size() &&
           starts[message] + header <= starts[message + 1] &&
           text_.compare(starts[message], header, prompt) == 0;
  };
  const bool is_regular = std::ranges::all_of(found, [&](const auto& one) {
    const auto& [message, at] = one;
    const bool is_last = message + 1 == messages_.size();
    return fits(message) && at.begin == starts[message] + header &&
           (is_last || at.end == starts[message + 1]);
  });
  auto next = found.begin();
  for (const size_t message : messages) {
    while (next != found.end() && next->first < message) {
      ++next;
    }
    if (next != found.end() && next->first == message) {
      ranges.push_back(next->second);
    } else if (is_regular && fits(message)) {
      ranges.push_back({starts[message] + header, starts[message + 1]});
    } else {
      ranges.push_back(find(message));
    }
  }
  return ranges;
}

// Messages at both ends, between them, and with surroundings of each kind.
std::vector<size_t> GainedText::sample(const std::vector<size_t>& messages) const {
  constexpr size_t kAtEnds = 6;
  constexpr size_t kBetween = 8;
  constexpr size_t kMostKinds = 40;
  const size_t n = messages.size();
  std::set<size_t> chosen;
  for (size_t i = 0; i < kAtEnds; ++i) {
    chosen.insert(messages[i]);
    chosen.insert(messages[n - 1 - i]);
  }
  for (size_t i = 0; i < kBetween; ++i) {
    chosen.insert(messages[(2 * i + 1) * n / (2 * kBetween)]);
  }
  std::set<std::string> kinds;
  for (const size_t message : messages) {
    if (kinds.size() < kMostKinds && kinds.insert(surroundings(message)).second) {
      chosen.insert(message);
    }
  }
  return {chosen.begin(), chosen.end()};
}

// The roles and keys of a message and its neighbors.
std::string GainedText::surroundings(size_t message) const {
  constexpr size_t kNear = 2;
  std::string kind;
  const size_t first = message - std::min(message, kNear);
  for (size_t i = first; i < std::min(message + kNear + 1, messages_.size()); ++i) {
    kind += i == message ? "|" : ";";
    for (const auto& [key, value] : messages_[i].items()) {
      kind += key +
              (key == "role"     ? value.dump()
               : value.is_null() ? "-"
                                 : value.type_name()) +
              ",";
    }
  }
  return kind;
}

}  // namespace tenon
