// SPDX-License-Identifier: Apache-2.0
#include "host/train/generate/chat_session.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr char kMarks[] =
    "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}";

struct ChatTokenizer {
  explicit ChatTokenizer(const std::string& chat_template)
      : instance(make_component("tokenizer",
                                "special_bytes",
                                R"({"specials": ["<u>", "<a>", "<s>", "</>"], "eos": "</>",
                                    "chat_template": ")" +
                                    chat_template + "\"}")) {}
  ComponentInstance instance;
  TokenizerProxy proxy{instance};
};

}  // namespace

TEST_CASE("a chat is rendered with all messages so far", "[train]") {
  const ChatTokenizer tokenizer(kMarks);
  ChatSession chat(tokenizer.proxy, "be");
  const std::vector<int32_t> first = chat.ask("hi");
  CHECK(first == std::vector<int32_t>{258, 'b', 'e', 259, 256, 'h', 'i', 259, 257});
  chat.answer("yo");
  std::vector<int32_t> second = first;
  second.insert(second.end(), {'y', 'o', 259, 256, '?', 259, 257});
  CHECK(chat.ask("?") == second);
}

TEST_CASE("special tokens of a message stay text, and a template may be given", "[train]") {
  const ChatTokenizer tokenizer("");
  CHECK_THROWS_WITH(ChatSession(tokenizer.proxy, std::nullopt),
                    contains_text("[generate.no_template]"));
  ChatSession chat(tokenizer.proxy, std::nullopt, "{{ messages[0].content }}<a>");
  CHECK(chat.ask("<u>") == std::vector<int32_t>{'<', 'u', '>', 257});
  ChatSession thinking(tokenizer.proxy,
                       std::nullopt,
                       "{{ 'y' if enable_thinking else 'n' }}",
                       {{"enable_thinking", false}});
  CHECK(thinking.ask("hi") == std::vector<int32_t>{'n'});
  ChatSession empty(tokenizer.proxy, std::nullopt, "{{ '' }}");
  CHECK_THROWS_WITH(empty.ask("hi"), contains_text("[generate.not_possible]"));
}

}  // namespace tenon
