// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/end_tokens.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using EndIds = std::vector<int64_t>;

struct SpecialTokenizer {
  explicit SpecialTokenizer(const std::string& chat_template)
      : instance(make_component("tokenizer",
                                "special_bytes",
                                R"({"specials": ["<u>", "<a>", "<end>", "</s>"], "eos": "</s>",
                                    "chat_template": ")" +
                                    chat_template + "\"}")) {}
  ComponentInstance instance;
  TokenizerProxy proxy{instance};
};

constexpr int64_t kUser = 256;
constexpr int64_t kTurnEnd = 258;
constexpr int64_t kEos = 259;

}  // namespace

TEST_CASE("a text ends at the tokenizer's eos and at the end of an answer", "[train]") {
  const SpecialTokenizer turns(
      "{% for m in messages %}<{{ m.role[0] }}>\\n{{ m.content | trim }}<end>\\n{% endfor %}");
  CHECK(end_tokens(turns.proxy) == EndIds{kEos, kTurnEnd});
  CHECK(end_tokens(turns.proxy, "{% for m in messages %}<u>{{ m.content }}</s>{% endfor %}") ==
        EndIds{kEos});
  CHECK(end_tokens(SpecialTokenizer("").proxy) == EndIds{kEos});
  CHECK(end_tokens(turns.proxy, "", {{kGenerationConfig, R"({"eos_token_id": 256})"}}) ==
        EndIds{kEos, kUser, kTurnEnd});
}

TEST_CASE("an answer may end only where another message follows", "[train]") {
  const SpecialTokenizer tokenizer("");
  CHECK(turn_end(tokenizer.proxy,
                 "{% for m in messages %}<a>{{ m.content }}"
                 "{% if not loop.last %}<end>{% endif %}{% endfor %}") == kTurnEnd);
  // The start of the next message ends the answer, as in GLM.
  CHECK(turn_end(tokenizer.proxy, "{% for m in messages %}<u>{{ m.content }}{% endfor %}") ==
        kUser);
}

TEST_CASE("a template may require a system message, or contents in parts", "[train]") {
  const SpecialTokenizer tokenizer("");
  CHECK(turn_end(tokenizer.proxy,
                 "{% if messages[0].role != 'system' %}{{ raise_exception('no') }}{% endif %}"
                 "{% for m in messages %}<u>{{ m.content }}<end>{% endfor %}") == kTurnEnd);
  CHECK(turn_end(tokenizer.proxy,
                 "{% for m in messages %}<u>{{ m.content[0]['text'] }}<end>{% endfor %}") ==
        kTurnEnd);
}

TEST_CASE("templates without an end of answers, and templates that fail, give none", "[train]") {
  const SpecialTokenizer tokenizer("");
  for (const char* const text : {"{% for m in messages %}{{ m.content }}\n\n{% endfor %}",
                                 "{{ raise_exception('no') }}",
                                 "{% for %}",
                                 "<end>",
                                 ""}) {
    INFO(text);
    CHECK(turn_end(tokenizer.proxy, text) == std::nullopt);
  }
  // The user's text is no special token.
  CHECK(turn_end(tokenizer.proxy, "{% for m in messages %}{{ m.content }}{% endfor %}") ==
        std::nullopt);
}

TEST_CASE("eos_token_id of a generation_config.json is none, an id or a list", "[train]") {
  CHECK(end_ids_of(R"({"eos_token_id": [1, 107]})", "g") == EndIds{1, 107});
  CHECK(end_ids_of(R"({"eos_token_id": 7})", "g") == EndIds{7});
  CHECK(end_ids_of(R"({"eos_token_id": null})", "g").empty());
  CHECK(end_ids_of("{}", "g").empty());
  for (const char* const text :
       {R"({"eos_token_id": "</s>"})", R"({"eos_token_id": [1.5]})", "{", ""}) {
    CHECK_THROWS_WITH(end_ids_of(text, "a/generation_config.json"),
                      contains_text("[generate.not_possible] a/generation_config.json: "));
  }
}

}  // namespace tenon
