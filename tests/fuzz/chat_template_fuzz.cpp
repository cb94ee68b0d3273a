// SPDX-License-Identifier: Apache-2.0
//
// Chat templates and conversations that are nearly right are rendered or refused, within the bounds
// of a rendering. A case is a line of JSON, the conversation, and the template.
#include "host/chat/chat_template.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "tests/fuzz/fuzz_run.hpp"
#include "tests/fuzz/json_cases.hpp"
#include "tests/fuzz/judge_error.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::vector<std::string> templates() {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(source_dir() / "tests/support/chat_templates")) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<std::string> texts = {
      "{% macro f(a, b=1) %}{{ a[1:] ~ b }}{% endmacro %}{% for m in messages if m %}"
      "{% if m.content is string %}{{ (m.role | upper)[0] + 'a' }}{% elif not m %}"
      "{% set y = {'a': [1, 2.5]} %}{% else %}{{- f(m.content, b='c') -}}{% endif %}{% endfor %}",
      "{% set ns = namespace(i=0, s='') %}{% for m in messages %}{% set ns.i = ns.i + 1 %}"
      "{% set ns.s = ns.s + m.content %}{% generation %}{{ ns.s | trim | tojson }}"
      "{% endgeneration %}{% endfor %}{{ ns.s.split(' ') | join('-') | length }}"};
  for (const fs::path& path : paths) {
    texts.push_back(read_corpus_file(path.string()));
  }
  return texts;
}

// {"messages", "tools", "variables", ...} of the golden conversations.
std::vector<std::string> conversations() {
  const Json golden =
      Json::parse(read_corpus_file((source_dir() / "tests/parity/chat_golden.json").string()));
  std::vector<std::string> texts;
  for (const auto& [name, chat] : golden.at("chats").items()) {
    Json request = chat;
    request["variables"] = golden.at("specials");
    request["find_answers"] = true;
    texts.push_back(request.dump());
  }
  return texts;
}

std::string make_chat(Mutator& mutator) {
  static const std::vector<std::string> sources = templates();
  static const std::vector<std::string> chats = conversations();
  static const JsonCases cases(chats);
  static const std::vector<std::string> words = {"{%",
                                                 "%}",
                                                 "{{",
                                                 "}}",
                                                 "{%-",
                                                 "-%}",
                                                 "{#",
                                                 "#}",
                                                 "{% if messages %}",
                                                 "{% endif %}",
                                                 "{% for m in messages %}",
                                                 "{% endfor %}",
                                                 "{% generation %}",
                                                 "{% endgeneration %}",
                                                 "{% macro f(x) %}",
                                                 "{% endmacro %}",
                                                 "{{ f(f) }}",
                                                 "{% set messages = messages[1:] %}",
                                                 "{% set ns.s = ns.s + ns.s %}",
                                                 "{% for i in range(9) %}",
                                                 "range(99999)",
                                                 "loop.index0",
                                                 "loop.previtem",
                                                 "namespace(a=[])",
                                                 "messages[-1]",
                                                 "[::-1]",
                                                 "['a']",
                                                 " | tojson(indent=2)",
                                                 " | selectattr('role', 'equalto', 'user')",
                                                 " | map(attribute='content') | list",
                                                 " | groupby('role')",
                                                 " is defined",
                                                 " is mapping",
                                                 " not in ",
                                                 " ~ ",
                                                 " ** ",
                                                 " // ",
                                                 " % ",
                                                 "strftime_now('%Y')",
                                                 "raise_exception('no')",
                                                 "caller()",
                                                 ".format(1)",
                                                 ".replace('', 'ab')",
                                                 " * 99999999",
                                                 "'\\u00e4'",
                                                 "none",
                                                 "1e999"};
  std::string chat = mutator.one_in(3) ? cases.make(mutator) : mutator.pick(chats);
  std::ranges::replace(chat, '\n', ' ');
  std::string source = mutator.pick(sources);
  if (!mutator.one_in(4)) {
    source = mutator.mutated(std::move(source), words, sources);
  }
  return chat + "\n" + source;
}

Json value_of(const Json& chat, const char* key) {
  const auto found = chat.find(key);
  return found == chat.end() ? Json() : *found;
}

// What callers of the renderer rely on.
void check_pieces(const ChatRequest& request, const std::vector<ChatPiece>& pieces) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    const ChatPiece& piece = pieces[i];
    if (piece.text.empty()) {
      throw FuzzFinding("a piece is empty");
    }
    if (i > 0 && piece.is_template == pieces[i - 1].is_template &&
        piece.answer == pieces[i - 1].answer) {
      throw FuzzFinding("neighboring pieces are alike");
    }
    const auto num_messages = static_cast<int64_t>(request.messages.size());
    if (piece.answer < -1 || piece.answer >= num_messages ||
        (piece.answer >= 0 && request.find == FindText::kNothing)) {
      throw FuzzFinding("a piece answers with a message that does not exist");
    }
    if (piece.answer >= 0 &&
        value_of(request.messages[static_cast<size_t>(piece.answer)], "role") != "assistant") {
      throw FuzzFinding("an answer is not of the assistant");
    }
  }
}

std::string judge_chat(const std::string& input) {
  const size_t end = std::min(input.find('\n'), input.size());
  const Json chat = Json::parse(input.substr(0, end), nullptr, false);
  if (!chat.is_object()) {
    return "no JSON object";
  }
  ChatRequest request;
  request.messages = value_of(chat, "messages");
  request.tools = value_of(chat, "tools");
  if (chat.contains("variables")) {
    request.variables = chat.at("variables");
  }
  request.add_generation_prompt = value_of(chat, "add_generation_prompt") == true;
  request.find = value_of(chat, "find_answers") == true ? FindText::kAnswers : FindText::kNothing;
  return outcome_of([&] {
    const ChatTemplate compiled(end < input.size() ? input.substr(end + 1) : "");
    const std::vector<ChatPiece> pieces = compiled.render(request);
    check_pieces(request, pieces);
    // A second rendering by the same program, which kept nothing of the first.
    const std::vector<ChatPiece> again = compiled.render(request);
    if (!std::ranges::equal(pieces, again, [](const ChatPiece& a, const ChatPiece& b) {
          return a.text == b.text && a.is_template == b.is_template && a.answer == b.answer;
        })) {
      throw FuzzFinding("a second rendering differs");
    }
  });
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(argc,
                         argv,
                         {.name = "chat_template_fuzz",
                          .make = tenon::make_chat,
                          .judge = tenon::judge_chat,
                          .least_accepted = 0.1,
                          .max_seconds = 120});
}
