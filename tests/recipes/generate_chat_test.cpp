// SPDX-License-Identifier: Apache-2.0
//
// --generate --chat as a user gives it: answers of a small model that has learned two chats.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr char kTemplate[] =
    "{% set marks = {'user': '<u>', 'assistant': '<a>', 'system': '<s>'} %}"
    "{% for m in messages %}{{ marks[m.role] }}{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}";

// The first answer depends on the question, the second one on the first answer.
constexpr char kChats[] =
    R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"},
        {"role": "user", "content": "what"}, {"role": "assistant", "content": "I said yo"}]})"
    "\n"
    R"({"messages": [{"role": "user", "content": "who"}, {"role": "assistant", "content": "me"},
        {"role": "user", "content": "what"}, {"role": "assistant", "content": "I said me"}]})"
    "\n";

nlohmann::json tokenizer_with(const std::string& chat_template) {
  return {{"type", "special_bytes"},
          {"options",
           {{"specials", {"<u>", "<a>", "<s>", "</>", "<bos>"}},
            {"bos", "<bos>"},
            {"eos", "</>"},
            {"chat_template", chat_template}}}};
}

std::string without_line_breaks(std::string text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool is_inside = text[at] == '\n' && at + 1 < text.size() && text[at + 1] != '{';
    out += is_inside ? ' ' : text[at];
  }
  return out;
}

// A run that has learned the chats.
class LearnedChat {
 public:
  explicit LearnedChat(const std::string& patch = "{}") {
    nlohmann::json recipe = nlohmann::json::parse(R"({"name": "chats", "threads": {"compute": 1},
        "model": {"type": "llama", "options": {"vocab_size": 261, "hidden_size": 48,
            "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 96}},
        "data": {"batch_size": 2, "train": {"type": "chat", "options": {"cache": ""}}},
        "loss": {"type": "cross_entropy"},
        "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
        "train": {"steps": 120}, "checkpoint": {}})");
    recipe["data"]["train"]["options"]["files"] = {
        folder_.write("chats.jsonl", without_line_breaks(kChats)).string()};
    recipe["data"]["train"]["options"]["tokenizer"] = tokenizer_with(kTemplate);
    recipe.merge_patch(nlohmann::json::parse(patch));
    recipe_ = recipe;
    const SubprocessResult result =
        run_host(folder_.write("recipe.json", recipe.dump()), folder_.path() / "run");
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
  }
  SubprocessResult generate(std::vector<std::string> more) const {
    more.insert(more.begin(), {"--generate", "--run-dir", (folder_.path() / "run").string()});
    return run_host(more);
  }
  // Chats with lines on standard input, as printf writes them.
  SubprocessResult say(const std::string& lines, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"sh", "-c", "printf '" + lines + "' | \"$@\"", "sh"};
    for (const std::string& word : host_command()) {
      words.push_back(word);
    }
    words.insert(words.end(),
                 {"--generate", "--chat", "--run-dir", (folder_.path() / "run").string()});
    words.insert(words.end(), more.begin(), more.end());
    return run_subprocess(words);
  }
  std::string other_recipe(const nlohmann::json& tokenizer) const {
    nlohmann::json other = recipe_;
    other["data"]["train"]["options"]["tokenizer"] = tokenizer;
    return folder_.write("other.json", other.dump()).string();
  }

 private:
  ScratchFolder folder_;
  nlohmann::json recipe_;
};

const LearnedChat& learned() {
  static const LearnedChat run;
  return run;
}

std::string text_of(const SubprocessResult& result) {
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return result.out;
}

}  // namespace

TEST_CASE("a model answers a message, and the answer ends with its turn", "[generate]") {
  const SubprocessResult hi = learned().generate({"--chat", "--prompt", "hi"});
  CHECK(text_of(hi) == "yo\n");
  CHECK_THAT(hi.err, contains_text("prompt of 5 tokens in ") && contains_text("the text ended"));
  CHECK(text_of(learned().generate({"--chat", "--prompt", "who"})) == "me\n");
}

TEST_CASE("answers depend on the chat so far", "[generate]") {
  CHECK(text_of(learned().say("hi\\nwhat\\n")) == "yo\nI said yo\n");
  // The last line may lack its end; empty lines are no messages.
  CHECK(text_of(learned().say("who\\r\\n\\nwhat")) == "me\nI said me\n");
  CHECK(text_of(learned().say("")).empty());
}

TEST_CASE("special tokens in messages stay text", "[generate]") {
  // "<u>", four bytes, "</>", "<a>"; as a special token "</>" would be one token.
  const SubprocessResult result =
      learned().generate({"--chat", "--prompt", "a</>", "--max-tokens", "1"});
  CHECK_THAT(result.err, contains_text("prompt of 7 tokens in "));
  const SubprocessResult system =
      learned().generate({"--chat", "--system", "be", "--prompt", "a", "--max-tokens", "1"});
  CHECK_THAT(system.err, contains_text("prompt of 8 tokens in "));
}

TEST_CASE("chats that are not possible are refused", "[generate]") {
  const SubprocessResult bare = learned().generate(
      {"--chat", "--prompt", "hi", "--recipe", learned().other_recipe(tokenizer_with(""))});
  CHECK(bare.exit_code == 3);
  CHECK_THAT(bare.err,
             contains_text("[generate.no_template]") &&
                 contains_text("the tokenizer has no chat template, which a chat needs"));
  const SubprocessResult raised = learned().generate(
      {"--chat",
       "--prompt",
       "hi",
       "--recipe",
       learned().other_recipe(tokenizer_with("{{ raise_exception('no users') }}"))});
  CHECK(raised.exit_code != 0);
  CHECK_THAT(raised.err, contains_text("no users"));
  const SubprocessResult alone = learned().generate({"--system", "be", "--prompt", "a"});
  CHECK(alone.exit_code == 2);
  CHECK_THAT(alone.err, contains_text("--system has no effect without --chat"));
  CHECK(learned().say("\\377\\n").exit_code == 2);
  const SubprocessResult longer = learned().generate({"--chat", "--prompt", std::string(95, 'a')});
  CHECK(longer.exit_code == 4);
  CHECK_THAT(longer.err, contains_text("the prompt has 98 tokens"));
}

TEST_CASE("text is generated from averages if the run has them", "[generate]") {
  // The average is that of the first update, so the model has learned nothing.
  const LearnedChat run(R"({"hooks": [{"type": "ema", "options": {"decay": 0.999999}}]})");
  CHECK(text_of(run.generate({"--chat", "--prompt", "hi", "--max-tokens", "3"})) != "yo\n");
}

}  // namespace tenon
