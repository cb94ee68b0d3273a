// SPDX-License-Identifier: Apache-2.0

#include "host/chat/template_program.hpp"

#include "host/chat/template_functions.hpp"
#include "host/chat/template_nodes.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <jinja/lexer.h>
#include <jinja/parser.h>
#include <optional>
#include <string_view>

namespace tenon {
namespace {

using Tokens = std::vector<jinja::token>;

constexpr size_t kMaxSource = size_t{4} << 20;  // bytes
constexpr size_t kMaxTokensOfTag = 2000;
constexpr size_t kMaxBrackets = 100;
constexpr size_t kMaxBlocks = 100;

// As the lexer does it, so that its positions fit.
std::string with_unix_lines(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      out += '\n';
    }
  }
  return out;
}

// If nothing but white space lies between the first character and the first tag, the lexer takes
// the character for white space. An empty text in front of it helps.
bool loses_first_character(const std::string& source) {
  const size_t tag = source.find_first_not_of(" \t\v\f", 1);
  return !source.empty() &&
         std::string_view(" \t\v\f{").find(source[0]) == std::string_view::npos &&
         tag != std::string::npos && source[tag] == '{';
}

size_t line_of(const std::string& source, size_t position) {
  const auto end = source.begin() + static_cast<ptrdiff_t>(std::min(position, source.size()));
  return static_cast<size_t>(std::count(source.begin(), end, '\n')) + 1;
}

[[noreturn]] void fail_at(const std::string& source, size_t position, const std::string& why) {
  throw TemplateError(formatted("line {}: {}", line_of(source, position), why), false);
}

// The first line of an engine's message, without the kind of error in front.
std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (line == "stoll" || line == "stod") {  // what the C++ library says of a number out of range
    return "a number is too large";
  }
  for (const std::string prefix : {"lexer: ", "parser: ", "Parser Error: "}) {
    if (line.starts_with(prefix)) {
      line.erase(0, prefix.size());
    }
  }
  return line;
}

// The position that a message of the lexer shows: a part of the source, and below it spaces and
// "^".
size_t shown_position(const std::string& message, const std::string& source) {
  const size_t begin = message.find("\n...");
  const size_t end = message.rfind("...\n");
  if (begin == std::string::npos || end == std::string::npos || end < begin + 4) {
    return 0;
  }
  std::string shown = message.substr(begin + 4, end - begin - 4);
  const std::string mark = "↵";  // stands for a line break
  for (size_t at = shown.find(mark); at != std::string::npos; at = shown.find(mark, at + 1)) {
    shown.replace(at, mark.size(), "\n");
  }
  const size_t found = source.find(shown);
  const size_t spaces = message.size() - (end + 4) - 1;
  return found == std::string::npos || spaces < 3 ? 0 : found + spaces - 3;
}

Tokens tokens_of(const std::string& source) {
  try {
    return jinja::lexer().tokenize(source).tokens;
  } catch (const std::exception& error) {
    fail_at(source, shown_position(error.what(), source), first_line(error.what()));
  }
}

bool is_opening(jinja::token::type type) {
  return type == jinja::token::open_paren || type == jinja::token::open_square_bracket ||
         type == jinja::token::open_curly_bracket;
}
bool is_closing(jinja::token::type type) {
  return type == jinja::token::close_paren || type == jinja::token::close_square_bracket ||
         type == jinja::token::close_curly_bracket;
}

// Checks how tags are nested, and bounds what would be recursion of the parser.
class TagCheck {
 public:
  TagCheck(const Tokens& tokens, const std::string& source) : tokens_(tokens), source_(source) {}

  void run() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const jinja::token::type type = tokens_[i].t;
      if (type != jinja::token::open_statement && type != jinja::token::open_expression) {
        continue;
      }
      check_size(i);
      if (type == jinja::token::open_statement) {
        check_statement(i);
      }
    }
    if (!open_.empty()) {
      fail_at(source_, open_.back().position, "{% " + open_.back().name + " %} is not closed");
    }
  }

 private:
  struct Open {
    std::string name;
    size_t position;
    size_t branches;
  };

  void check_size(size_t begin) const {
    size_t depth = 0;
    for (size_t i = begin + 1; i < tokens_.size(); ++i) {
      const jinja::token::type type = tokens_[i].t;
      if (type == jinja::token::close_statement || type == jinja::token::close_expression) {
        return;
      }
      depth += is_opening(type) ? 1 : 0;
      depth -= is_closing(type) && depth > 0 ? 1 : 0;
      if (depth > kMaxBrackets || i - begin > kMaxTokensOfTag) {
        fail_at(source_, tokens_[begin].pos, "the tag is too long, or nested too deep");
      }
    }
    fail_at(source_, tokens_[begin].pos, "the tag is not closed");
  }

  void check_statement(size_t begin) {
    const size_t position = tokens_[begin].pos;
    const jinja::token& word = tokens_[begin + 1];
    if (word.t != jinja::token::identifier) {
      fail_at(source_, position, "a {% %} tag does not begin with a word");
    }
    const std::string& name = word.value;
    if (name == "if" || name == "for" || name == "macro" || name == "call" || name == "filter" ||
        name == "generation" || (name == "set" && !has_equals(begin))) {
      open_.push_back({name, position, 0});
      if (open_.size() > kMaxBlocks) {
        fail_at(source_, position, "tags are nested more than 100 deep");
      }
    } else if (name == "elif" || name == "else") {
      if (open_.empty() ||
          (open_.back().name != "if" && (name == "elif" || open_.back().name != "for"))) {
        fail_at(source_, position, "{% " + name + " %} without {% if %}");
      }
      if (++open_.back().branches > kMaxBlocks) {
        fail_at(source_, position, "{% if %} has more than 100 branches");
      }
    } else if (name.starts_with("end")) {
      if (open_.empty() || open_.back().name != name.substr(3)) {
        fail_at(source_,
                position,
                "{% " + name + " %} closes " +
                    (open_.empty() ? std::string("nothing")
                                   : formatted("{% {} %} of line {}",
                                               open_.back().name,
                                               line_of(source_, open_.back().position))));
      }
      open_.pop_back();
    } else if (name != "set" && name != "break" && name != "continue") {
      fail_at(source_, position, "the tag {% " + name + " %} is unknown");
    }
  }

  bool has_equals(size_t begin) const {
    for (size_t i = begin; i < tokens_.size() && tokens_[i].t != jinja::token::close_statement;
         ++i) {
      if (tokens_[i].t == jinja::token::equals) {
        return true;
      }
    }
    return false;
  }

  const Tokens& tokens_;
  const std::string& source_;
  std::vector<Open> open_;
};

// Turns {% generation %} into {% call kAnswerFunction() %}; true if there was one.
bool replace_generation_tags(Tokens& tokens) {
  Tokens out;
  bool has_any = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    jinja::token& token = tokens[i];
    const bool is_word = token.t == jinja::token::identifier && i > 0 &&
                         tokens[i - 1].t == jinja::token::open_statement;
    if (is_word && token.value == "generation") {
      has_any = true;
      out.push_back({jinja::token::identifier, "call", token.pos});
      out.push_back({jinja::token::identifier, kAnswerFunction, token.pos});
      out.push_back({jinja::token::open_paren, "(", token.pos});
      out.push_back({jinja::token::close_paren, ")", token.pos});
    } else {
      if (is_word && token.value == "endgeneration") {
        token.value = "endcall";
      }
      out.push_back(std::move(token));
    }
  }
  tokens = std::move(out);
  return has_any;
}

// The error of the first tag that alone is wrong, with its position.
std::optional<std::pair<size_t, std::string>> wrong_tag(const Tokens& tokens,
                                                        const std::string& source) {
  for (size_t begin = 0; begin < tokens.size(); ++begin) {
    const bool is_statement = tokens[begin].t == jinja::token::open_statement;
    if (!is_statement && tokens[begin].t != jinja::token::open_expression) {
      continue;
    }
    size_t end = begin;
    while (end < tokens.size() && tokens[end].t != jinja::token::close_statement &&
           tokens[end].t != jinja::token::close_expression) {
      ++end;
    }
    Tokens alone(tokens.begin() + static_cast<ptrdiff_t>(begin),
                 tokens.begin() + static_cast<ptrdiff_t>(std::min(end + 1, tokens.size())));
    if (is_statement && alone.size() > 1) {
      if (alone[1].value == "else" || alone[1].value.starts_with("end")) {
        continue;
      }
      if (alone[1].value == "elif") {
        alone[1].value = "if";
      }
      const std::string word = alone[1].value;  // a copy: `alone` grows
      const bool has_equals = std::ranges::any_of(
          alone, [](const auto& token) { return token.t == jinja::token::equals; });
      if (word != "break" && word != "continue" && !(word == "set" && has_equals)) {
        alone.push_back({jinja::token::open_statement, "{%", tokens[begin].pos});
        alone.push_back({jinja::token::identifier, "end" + word, tokens[begin].pos});
        alone.push_back({jinja::token::close_statement, "%}", tokens[begin].pos});
      }
    }
    try {
      (void)jinja::parse_from_tokens({alone, source});
    } catch (const std::exception& error) {
      return std::pair(tokens[begin].pos, first_line(error.what()));
    }
  }
  return std::nullopt;
}

// What a message of the engine says after the place.
std::string reason_of(const std::string& message) {
  const size_t at = message.rfind("\nError: ");
  return at == std::string::npos ? message : message.substr(at + 8);
}

// The line that a message of the engine names: "While executing For at line 3, column 5".
std::optional<size_t> line_in(const std::string& message) {
  const size_t at = message.find(" at line ");
  if (at == std::string::npos || !message.starts_with("\n------------\n")) {
    return std::nullopt;
  }
  return std::stoul(message.substr(at + 9));
}

}  // namespace

TemplateProgram::TemplateProgram(const std::string& source) : source_(with_unix_lines(source)) {
  if (source_.size() > kMaxSource) {
    throw TemplateError("the template has more than 4 MiB", false);
  }
  if (loses_first_character(source_)) {
    source_.insert(0, "{{''}}");
  }
  Tokens tokens = tokens_of(source_);
  TagCheck(tokens, source_).run();
  marks_answers_ = replace_generation_tags(tokens);
  try {
    program_ = std::make_unique<jinja::program>(jinja::parse_from_tokens({tokens, source_}));
  } catch (const std::exception& error) {
    const auto wrong = wrong_tag(tokens, source_);
    if (wrong) {
      fail_at(source_, wrong->first, wrong->second);
    }
    throw TemplateError(first_line(error.what()), false);
  }
  replace_nodes(*program_);
}

TemplateProgram::Result TemplateProgram::render(
    const std::vector<std::pair<std::string, TemplateValue>>& variables,
    const std::unordered_map<const jinja::value_t*, size_t>* messages) {
  budget_.start();
  const TemplateBudget::Use use(budget_);
  TemplateOutput output(budget_);
  output.messages = messages;
  jinja::context context(source_);
  define_functions(context);
  for (const auto& [name, value] : variables) {
    context.set_val(name, value);
  }
  try {
    run_template(*program_, context);
  } catch (const jinja::break_statement::signal&) {
    fail_at(source_, budget_.position(), "{% break %} outside of a loop");
  } catch (const jinja::continue_statement::signal&) {
    fail_at(source_, budget_.position(), "{% continue %} outside of a loop");
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    const std::string message = error.what();
    const size_t line = line_in(message).value_or(line_of(source_, budget_.position()));
    throw TemplateError(formatted("line {}: {}", line, reason_of(message)), budget_.is_exceeded());
  }
  return {std::move(output.text),
          std::move(output.answers),
          std::move(output.prints),
          std::move(output.message_starts)};
}

}  // namespace tenon
