// SPDX-License-Identifier: Apache-2.0
#include "host/chat/chat_template.hpp"

#include <thread>

#include "tests/host/chat/rendered.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kTurns[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

ChatRequest request_of(const std::vector<std::pair<std::string, std::string>>& turns) {
  ChatRequest request;
  request.messages = Json::array();
  for (const auto& [role, content] : turns) {
    request.messages.push_back({{"role", role}, {"content", content}});
  }
  request.find = FindText::kAnswers;
  return request;
}

// "template text|user text", with answers as "[i:...]".
std::string shown(const std::vector<ChatPiece>& pieces) {
  std::string text;
  for (const ChatPiece& piece : pieces) {
    const std::string one = piece.is_template ? piece.text : "'" + piece.text + "'";
    text += (text.empty() ? "" : " ") +
            (piece.answer < 0 ? one : "[" + std::to_string(piece.answer) + ":" + one + "]");
  }
  return text;
}

std::string error_of_chat(const std::string& source, const ChatRequest& request) {
  try {
    (void)ChatTemplate(source).render(request);
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("pieces distinguish text of messages from text of the template", "[chat]") {
  const ChatTemplate turns(kTurns);
  CHECK(shown(turns.render(request_of({{"user", "a</>"}, {"assistant", "b"}}))) ==
        "<user> 'a</>' </><assistant> [1:'b'] [1:</>]");
}

TEST_CASE("functions of templates keep apart what came from messages", "[chat]") {
  const auto pieces_of = [](const std::string& expression) {
    ChatRequest request = request_of({{"user", "<a>,<b>"}});
    request.find = FindText::kNothing;
    return shown(ChatTemplate("{{ " + expression + " }}").render(request));
  };
  CHECK(pieces_of("'[' + messages[0].content + ']'") == "[ '<a>,<b>' ]");
  CHECK(pieces_of("messages[0].content.split(',')[1]") == "'<b>'");
  CHECK(pieces_of("messages[0].content.split(',') | join('+')") == "'<a>' + '<b>'");
  CHECK(pieces_of("messages[0].content | replace(',', '|')") == "'<a>' | '<b>'");
  CHECK(pieces_of("messages[0].content[1:4]") == "'a>,'");
  CHECK(pieces_of("messages[0].content[-1]") == "'>'");
  CHECK(pieces_of("messages[0].content | upper") == "'<A>,<B>'");
  CHECK(pieces_of("messages[0].content | tojson") == "\" '<a>,<b>' \"");
  CHECK(pieces_of("messages[0] | tojson") ==
        "{\" 'role' \": \"user\", \" 'content' \": \" '<a>,<b>' \"}");
  CHECK(pieces_of("('  ' + messages[0].content + ' ') | trim") == "'<a>,<b>'");
  CHECK(pieces_of("'%' ~ messages[0].content.removeprefix('<a>')") == "% ',<b>'");
  CHECK(pieces_of("messages | string") == "[{' 'role' ': 'user', ' 'content' ': ' '<a>,<b>' '}]");
}

TEST_CASE("generation tags mark the answers, whatever the text", "[chat]") {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content }}."
      "{% endgeneration %}\n{% else %}U:{{ m.content }}\n{% endif %}{% endfor %}";
  const ChatTemplate tagged(source);
  CHECK(tagged.has_generation_tags());
  CHECK_FALSE(ChatTemplate(kTurns).has_generation_tags());
  CHECK(shown(tagged.render(request_of({{"user", "q"}, {"assistant", "r"}, {"assistant", ""}}))) ==
        "U: 'q' \nA: [1:'r'] [1:.] A: [2:.]");
  // Without a request for answers, nothing is marked.
  ChatRequest request = request_of({{"assistant", "r"}});
  request.find = FindText::kNothing;
  CHECK(shown(tagged.render(request)) == "A: 'r' .");
}

TEST_CASE("several generation tags of a message belong to it", "[chat]") {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'assistant' %}"
      "{% generation %}{{ m.content }}{% endgeneration %},{% generation %}!{% endgeneration %};"
      "{% else %}?{% endif %}{% endfor %}";
  CHECK(shown(ChatTemplate(source).render(
            request_of({{"assistant", "a"}, {"user", "q"}, {"assistant", "b"}}))) ==
        "[0:'a'] , [0:!] ;? [2:'b'] , [2:!] ;");
  CHECK(error_of_chat("{% generation %}{{ messages[0].content }}{% endgeneration %}",
                      request_of({{"user", "q"}})) ==
        "[template.bad_answers] the template marks 1 parts with {% generation %}, and 0 of them "
        "belong to messages of the assistant");
}

TEST_CASE("generation tags where their text cannot be followed are an error", "[chat]") {
  for (const std::string source :
       {"{% macro f() %}{% generation %}x{% endgeneration %}{% endmacro %}\n{{ f() }}",
        "\n{% set x %}{% generation %}x{% endgeneration %}{% endset %}",
        "\n{% filter upper %}{% generation %}x{% endgeneration %}{% endfilter %}"}) {
    CAPTURE(source);
    CHECK_THAT(render_error(source), contains_text("a {% generation %} tag is inside of a macro"));
  }
}

TEST_CASE("without tags, an answer is what the rendering gains by its message", "[chat]") {
  const ChatTemplate turns(kTurns);
  CHECK(shown(turns.render(
            request_of({{"user", "q"}, {"assistant", "r"}, {"user", "s"}, {"assistant", "t"}}))) ==
        "<user> 'q' </><assistant> [1:'r'] [1:</>] <user> 's' </><assistant> "
        "[3:'t'] [3:</>]");
}

TEST_CASE("a rendering that does not start with the one before names the message", "[chat]") {
  const std::string forgets =
      "{% for m in messages %}{{ m.role[0] }}:"
      "{{ m.content if loop.last or m.role == 'user' else '...' }};{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}";
  const ChatRequest three = request_of({{"user", "q"}, {"assistant", "long"}, {"user", "s"}});
  CHECK(
      error_of_chat(forgets, three) ==
      "[template.changed_text] message 2: the rendering does not start with that of the messages "
      "up to it: at byte 6 it is \"...;u:s;\", expected \"long;\"; train on the last answer only, "
      "or use a template with {% generation %} tags around what the assistant writes");
  // A prompt that has nothing of the finished answer.
  const std::string prompt_differs =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}Answer:{% endif %}";
  CHECK_THAT(
      error_of_chat(prompt_differs, request_of({{"user", "q"}, {"assistant", "r"}})),
      contains_text("message 2: the rendering does not start with that of the messages before "
                    "it and the prompt for an answer: at byte 7 it is \"<assistant>r\", expected "
                    "\"Answer:\""));
}

TEST_CASE("only messages to train on have to stay as they are", "[chat]") {
  const std::string forgets =
      "{% for m in messages %}{{ m.role[0] }}:"
      "{{ m.content if loop.last or m.role == 'user' else '...' }};{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}";
  ChatRequest request =
      request_of({{"user", "q"}, {"assistant", "long"}, {"user", "s"}, {"assistant", "t"}});
  request.messages[1]["train"] = false;
  CHECK(shown(ChatTemplate(forgets).render(request)) == "u: 'q' ;a:...;u: 's' ;a: [3:'t'] [3:;]");
}

TEST_CASE("what closes each chat, and what only the prompt has, is no part of an answer",
          "[chat]") {
  const std::string closes =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% else %}<|endoftext|>{% endif %}";
  CHECK(shown(ChatTemplate(closes).render(
            request_of({{"user", "q"}, {"assistant", "r"}, {"user", "s"}, {"assistant", "t"}}))) ==
        "<|user|> 'q' <|end|><|assistant|> [1:'r'] [1:<|end|>] <|user|> 's' <|end|><|assistant|> "
        "[3:'t'] [3:<|end|><|endoftext|>]");
  const std::string thinks =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant><think>{% endif %}";
  CHECK(shown(ChatTemplate(thinks).render(request_of({{"user", "q"}, {"assistant", "<think>"}}))) ==
        "<user> 'q' <assistant> [1:'<think>']");
}

TEST_CASE("the texts of messages that are not trained on can be asked for", "[chat]") {
  ChatRequest request = request_of({{"user", "q"}, {"assistant", "r"}, {"user", "s"}});
  request.messages[0]["train"] = false;
  request.messages[1]["train"] = false;
  request.find = FindText::kUntrained;
  CHECK(shown(ChatTemplate(kTurns).render(request)) ==
        "[0:<user>] [0:'q'] [0:</>] [1:<assistant>] [1:'r'] [1:</>] <user> 's' </>");
}

TEST_CASE("answers of chats with many messages are found by a sample of them", "[chat]") {
  std::vector<std::pair<std::string, std::string>> turns;
  for (int i = 0; i < 400; ++i) {
    turns.emplace_back("user", "q" + std::to_string(i));
    turns.emplace_back("assistant", "a" + std::to_string(i));
  }
  ChatRequest request = request_of(turns);
  int64_t next = 1;
  for (const ChatPiece& piece : ChatTemplate(kTurns).render(request)) {
    if (piece.answer >= 0 && !piece.is_template) {
      CHECK(piece.answer == next);
      CHECK(piece.text == "a" + std::to_string(next / 2));
      next += 2;
    }
  }
  CHECK(next == 801);
  // One message that a later one changes is found, whatever its place.
  request.messages[501]["name"] = "x";
  const std::string changes =
      "{% for m in messages %}<{{ m.role }}>{{ '' if m.name and not loop.last else m.content }}</>"
      "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  CHECK_THAT(error_of_chat(changes, request), contains_text("message 502: "));
}

TEST_CASE("a null of a message does not become the word None", "[chat]") {
  const ChatRequest request = [] {
    ChatRequest made = request_of({{"user", "q"}});
    made.messages.push_back({{"role", "assistant"}, {"content", nullptr}});
    made.find = FindText::kNothing;
    return made;
  }();
  CHECK_THAT(error_of_chat("{{ messages[1].content }}", request),
             contains_text("line 1: the template prints a null of a message or tool as the word "
                           "None"));
  CHECK(shown(ChatTemplate("{{ messages[1].content is none }}{{ messages[1] | tojson }}")
                  .render(request)) == "True{\" 'role' \": \"assistant\", \" 'content' \": null}");
}

TEST_CASE("a date that is given is the date of strftime_now", "[chat]") {
  CHECK(rendered("{{ strftime_now('%d %b %Y %A') }}", {{"strftime_now", "2026-01-31"}}) ==
        "31 Jan 2026 Saturday");
  CHECK_THAT(render_error("\n{{ strftime_now('%Y') }}", {{"strftime_now", nullptr}}),
             contains_text("line 2: the template prints the date of today (strftime_now), and "
                           "another day gives other tokens; set `date` to a day"));
  CHECK_THAT(render_error("a", {{"strftime_now", "today"}}),
             contains_text("the date is today, expected YYYY-MM-DD"));
  CHECK(rendered("{{ '3000000000' | int + 1 }} {{ '3.7' | int }} {{ 'x' | int(5) }}") ==
        "3000000001 3 5");
}

TEST_CASE("errors of a template name the line and the reason", "[chat]") {
  CHECK(render_error("a\nb\n{{ raise_exception('roles must alternate') }}") ==
        "[template.failed] the chat template failed: line 3: the template raised an error: roles "
        "must alternate");
  CHECK(render_error("\n{{ x.y.z }}", {{"x", Json::object()}}) ==
        "[template.failed] the chat template failed: line 2: `y` is undefined, and has no `z`");
  CHECK(render_error("\n\n{{ x + 'a' }}", {{"x", nullptr}}) ==
        "[template.failed] the chat template failed: line 3: `+` cannot combine None and a string");
  CHECK(render_error("{{ [1, 2].append(3) }}") ==
        "[template.failed] the chat template failed: line 1: templates may not change lists with "
        "`append`");
  CHECK_THAT(render_error("{{ 'a' | nothing }}"),
             contains_text("no filter `nothing` for a string"));
  CHECK_THAT(render_error("{{ 'a' is odd_one }}"), contains_text("no test `odd_one`"));
  CHECK_THAT(render_error("\n{{ nothing() }}"),
             contains_text("line 2: an undefined value is called, expected a function"));
  CHECK_THAT(render_error("{% break %}"), contains_text("line 1: {% break %} outside of a loop"));
}

TEST_CASE("syntax errors of a template name the line", "[chat]") {
  const auto error = [](const std::string& source) {
    try {
      (void)ChatTemplate(source);
      return std::string("no error");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const std::string start = "[template.invalid] the chat template is invalid: ";
  CHECK(error("a\n{% if x %}\nb\n") == start + "line 2: {% if %} is not closed");
  CHECK(error("a\n{% for m in x %}\n{% endif %}") ==
        start + "line 3: {% endif %} closes {% for %} of line 2");
  CHECK(error("\n{% endfor %}") == start + "line 2: {% endfor %} closes nothing");
  CHECK(error("{% include 'x' %}") == start + "line 1: the tag {% include %} is unknown");
  CHECK(error("\n{% else %}") == start + "line 2: {% else %} without {% if %}");
  CHECK(error("{{ a") == start + "line 1: the tag is not closed");
  CHECK(error("\n\n{% %}") == start + "line 3: a {% %} tag does not begin with a word");
  CHECK_THAT(error("x\n\n{{ a b }}\n"), contains_text(start + "line 3: "));
  // Valid tags before the wrong one, each of which is parsed alone with its end.
  CHECK_THAT(error("{% if a %}{% for m in x %}\n{% endfor %}{% endif %}\n{{ a b }}\n"),
             contains_text(start + "line 3: "));
  CHECK_THAT(error("x\n{{ 'a }}\n"), contains_text(start + "line 3: unexpected end"));
  CHECK_THAT(error("x\n\n\n{# a"), contains_text(start + "line 4: "));
  CHECK_THAT(error("x\n{% if (a %}{% endif %}"), contains_text(start + "line 2: "));
  CHECK_THAT(error("x\n{{ 99999999999999999999 }}"),
             contains_text(start + "line 2: a number is too large"));
}

TEST_CASE("expressions have the meaning that they have in Python", "[chat]") {
  const Json variables = {{"s", "Grüße"},
                          {"list", {3, 1, 2}},
                          {"obj", {{"b", 1}, {"a", {1.5, true, nullptr}}}},
                          {"items", {{{"k", 1}, {"v", "x"}}, {{"k", 2}}}}};
  const auto value = [&](const std::string& expression) {
    return rendered("{{ (" + expression + ") }}", variables);
  };
  CHECK(value("none") == "None");
  CHECK(value("missing") == "");
  CHECK(value("true") == "True");
  CHECK(value("7 % 3, -7 % 3, 7 / 2, 2 * 3 - 1") == "(1, 2, 3.5, 5)");
  CHECK(value("1000 if false else 0.1 + 0.2") == "0.30000000000000004");
  CHECK(value("1.0 * 100000, 0.00001 / 1, 10000000.0 * 10000000000") == "(100000.0, 1e-05, 1e+17)");
  CHECK(value("[1, 'a', \"it's\", none, 2.0]") == "[1, 'a', \"it's\", None, 2.0]");
  CHECK(value("obj") == "{'b': 1, 'a': [1.5, True, None]}");
  CHECK(value("obj | tojson") == R"({"b": 1, "a": [1.5, true, null]})");
  CHECK(value("obj | tojson(sort_keys=true, separators=(',', ':'))") ==
        R"({"a":[1.5,true,null],"b":1})");
  CHECK(value("obj | tojson(indent=1)") ==
        "{\n \"b\": 1,\n \"a\": [\n  1.5,\n  true,\n  null\n ]\n}");
  CHECK(value("s | tojson(ensure_ascii=true)") == "\"Gr\\u00fc\\u00dfe\"");
  CHECK(value("[] | tojson(indent=2), {} | tojson") == "('[]', '{}')");
  CHECK(value("s | length, s[2], s[::-1], s[1:-1]") == "(5, 'ü', 'eßürG', 'rüß')");
  CHECK(value("list | sort | join(','), list | length, list[-1], list[1:]") ==
        "('1,2,3', 3, 2, [1, 2])");
  CHECK(value("items | map(attribute='k') | list") == "[1, 2]");
  CHECK(value("items | selectattr('v') | map(attribute='v') | first") == "x");
  CHECK(value("items | selectattr('k', 'equalto', 2) | list | length") == "1");
  CHECK(value("list | reject('eq', 3) | list") == "[1, 2]");
  CHECK(value("'a' in 'cab', 'x' in obj, 'a' in obj, 3 in list, 'a' in missing") ==
        "(True, False, True, True, False)");
  CHECK(value("missing | default('d'), '' | default('d'), '' | default('d', true)") ==
        "('d', '', 'd')");
  CHECK(value("none | default('d')") == "None");
  CHECK(value("'a,b,,c'.split(','), ' a  b '.split(), 'a.b.c'.rsplit('.', 1)") ==
        "(['a', 'b', '', 'c'], ['a', 'b'], ['a.b', 'c'])");
  CHECK(value("'xxabx'.strip('x'), 'ab'.startswith(('b', 'a')), 'aXb' | lower") ==
        "('ab', True, 'axb')");
  CHECK(value("'aaa'.replace('a', 'b', 2), 'hello world' | title, 'hELLO' | capitalize") ==
        "('bba', 'Hello World', 'Hello')");
  CHECK(value("'-'.join(['a', 'b']), 'abc' | first, 'ab' * 2") == "('a-b', 'a', 'abab')");
  CHECK(value("obj.items() | list") == "[('b', 1), ('a', [1.5, True, None])]");
  CHECK(value("obj.get('z'), obj.get('z', 1), obj['b']") == "(None, 1, 1)");
  CHECK(value("1 == 1.0, [1] == [1], 'a' != 'b', not 1, 1 < 2 and 2 <= 2") ==
        "(True, True, True, False, True)");
  CHECK(value("obj is mapping, obj is iterable, list is sequence, s is string, 1 is number") ==
        "(True, True, True, True, True)");
  CHECK(value("none is none, missing is defined, true is boolean, 4 is divisibleby(2)") ==
        "(True, False, True, True)");
  CHECK(value("'\u00a0\u3000a\u2003' | trim") == "a");
  CHECK(value("range(3) | list, range(3, 0, -1) | list") == "([0, 1, 2], [3, 2, 1])");
}

TEST_CASE("statements have Jinja's scopes and white space", "[chat]") {
  CHECK(rendered("{% for i in range(3) %}{% if loop.first %}{% set x = i %}{% endif %}"
                 "[{{ x }}]{% endfor %}") == "[0][][]");
  CHECK(rendered("{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}") == "1");
  CHECK(rendered("{% set ns = namespace(x=1) %}{% for i in [1] %}{% set ns.x = 2 %}{% endfor %}"
                 "{{ ns.x }}") == "2");
  CHECK(rendered("{% for a, b in {'k': 1}.items() %}{{ a }}{{ b }}{% else %}none{% endfor %}") ==
        "k1");
  CHECK(rendered("{% for a in [] %}{% else %}none{% endfor %}") == "none");
  CHECK(rendered("{% for i in range(5) if i % 2 %}{{ i }}{{ loop.last }}{% endfor %}") ==
        "1False3True");
  CHECK(rendered("{% for i in range(5) %}{% if i == 1 %}a{% continue %}{% endif %}"
                 "{% if i == 3 %}b{% break %}{% endif %}{{ i }}{% endfor %}") == "0a2b");
  CHECK(
      rendered("{% macro f(a, b='x') %}({{ a }}{{ b }}){% endmacro %}{{ f(1) }}{{ f(1, b=2) }}") ==
      "(1x)(12)");
  CHECK(rendered("{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}a{% endcall %}") ==
        "<a>");
  CHECK(rendered(
            "{% set t %}a{{ 1 }}{% endset %}{{ t | upper }}{% filter upper %}b{% endfilter %}") ==
        "A1B");
  CHECK(rendered("  {% if true %}\n  a\n  {% endif %}\nb\n\n") == "  a\nb\n");
  CHECK(rendered("a  {%- if true -%}  b  {%- endif %}  c") == "ab  c");
  CHECK(rendered("x{% if true %}y{% endif %}") == "xy");
  CHECK(rendered("\n{% if true %}y{% endif %}") == "\ny");
  CHECK(rendered("\t {% if true %}y{% endif %}") == "y");
  CHECK(rendered("x\n  {% if true %}y{% endif %}") == "x\ny");
  CHECK(rendered("{# one #}\na{#- two -#} b") == "ab");
}

TEST_CASE("several threads render with one template", "[chat]") {
  const ChatTemplate turns(std::string(kTurns) + "{% filter upper %}end{% endfilter %}");
  const ChatRequest request = request_of({{"user", "question"}, {"assistant", "answer"}});
  ChatRequest plain = request;
  plain.find = FindText::kNothing;
  const std::string expected = shown(turns.render(plain));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        wrong[t] += shown(turns.render(plain)) != expected ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("arguments that are JSON text are the object where a template writes JSON", "[chat]") {
  const auto rendered = [](const std::string& source, const std::string& arguments) {
    ChatRequest request;
    request.messages = {
        {{"role", "assistant"},
         {"content", ""},
         {"tool_calls",
          {{{"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}}}}}};
    return text_of(ChatTemplate(source).render(request));
  };
  const std::string text = R"({"city": "Northport", "days": 3})";
  const std::string function = "messages[0].tool_calls[0].function";
  CHECK(rendered("{{ " + function + ".arguments | tojson }}", text) == text);
  CHECK(rendered("{{ " + function + " | tojson }}", text) ==
        R"({"name": "f", "arguments": )" + text + "}");
  CHECK(rendered("{{ " + function + ".arguments }}", text) == text);
  CHECK(rendered("{{ " + function + ".arguments is string }}", text) == "True");
  // Other texts stay texts.
  CHECK(rendered("{{ " + function + ".arguments | tojson }}", "none") == R"("none")");
}

}  // namespace tenon
