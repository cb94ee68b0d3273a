// SPDX-License-Identifier: Apache-2.0
//
// Samples of the dataset `chat`: formats, labels, lengths. Tokens are bytes and a few marks, so
// that rows can be read.
#include <ATen/ATen.h>

#include "tests/plugins/opened_chat.hpp"

namespace tenon {
namespace {

using Json = nlohmann::json;

// The rows of the first sample of a file with this sample.
std::string shown(const Json& sample, Json options = Json::object()) {
  const ScratchFolder folder;
  options["files"] = {write_chats(folder, "a.jsonl", {sample})};
  return open_chat(options).shown(0);
}

Json message(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

}  // namespace

TEST_CASE("labels of a chat are the next tokens of the answers", "[chat]") {
  CHECK(shown(chat_of({"hi", "yo", "ok", "no"})) ==
        "<u>hi</><a>yo</><u>ok</><a>no\n"
        "....yo</>.....no</>");
}

TEST_CASE("train_on selects the text with labels", "[chat]") {
  const Json chat = chat_of({"hi", "yo", "ok", "no"});
  CHECK(shown(chat, {{"train_on", "last"}}) ==
        "<u>hi</><a>yo</><u>ok</><a>no\n"
        "............no</>");
  CHECK(shown(chat, {{"train_on", "all"}}) ==
        "<u>hi</><a>yo</><u>ok</><a>no\n"
        "hi</><a>yo</><u>ok</><a>no</>");
}

TEST_CASE("messages with train false have no labels", "[chat]") {
  Json chat = chat_of({"hi", "yo", "ok", "no"});
  chat["messages"][1]["train"] = false;
  CHECK(shown(chat) ==
        "<u>hi</><a>yo</><u>ok</><a>no\n"
        "............no</>");
  CHECK(shown(chat, {{"train_on", "all"}}) ==
        "<u>hi</><a>yo</><u>ok</><a>no\n"
        "hi</>....<u>ok</><a>no</>");
  chat["messages"][0]["train"] = false;
  CHECK(shown(chat, {{"train_on", "all"}}) ==
        "<u>hi</><a>yo</><u>ok</><a>no\n"
        ".......<u>ok</><a>no</>");
}

TEST_CASE("an answer of the assistant with train false may be empty", "[chat]") {
  Json chat = chat_of({"hi", "", "ok", "no"});
  chat["messages"][1]["train"] = false;
  CHECK(shown(chat) ==
        "<u>hi</><a></><u>ok</><a>no\n"
        "..........no</>");
}

TEST_CASE("special tokens in the text of a message stay text", "[chat]") {
  const ScratchFolder folder;
  const std::string file = write_chats(folder, "a.jsonl", {chat_of({"</><a>", "<eos>"})});
  OpenedChat chat = open_chat({{"files", {file}}});
  const Batch batch = chat.read({0});
  const at::Tensor ids = (*batch.find("input_ids"))[0];
  // The mark of the user, the bytes of "</><a>", two marks, the bytes of "<eos>".
  CHECK(ids.numel() == 1 + 6 + 2 + 5);
  CHECK(ids.gt(255).sum().item<int64_t>() == 3);
}

TEST_CASE("a ShareGPT sample becomes messages", "[chat]") {
  const Json sample = {{"system", "S"},
                       {"conversations",
                        {{{"from", "human"}, {"value", "hi"}},
                         {{"from", "gpt"}, {"value", "yo"}},
                         {{"from", "observation"}, {"value", "x"}},
                         {{"from", "gpt"}, {"value", "z"}, {"train", false}}}}};
  CHECK(shown(sample) ==
        "<s>S</><u>hi</><a>yo</><t>x</><a>z\n"
        ".......yo</>........");
}

TEST_CASE("calls of functions in a ShareGPT sample become tool calls", "[chat]") {
  const std::string source =
      "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function | tojson }}{% endfor %}</>{% endfor %}{{ tools | length }}"
      "{% if add_generation_prompt %}<a>{% endif %}";
  const ScratchFolder folder;
  const Json sample = {
      {"tools", R"([{"name": "f"}, {"name": "g"}])"},
      {"conversations",
       {{{"from", "human"}, {"value", "hi"}},
        {{"from", "function_call"}, {"value", R"({"name": "f", "arguments": {"a": 1}})"}}}}};
  const std::string file = write_chats(folder, "a.jsonl", {sample});
  // The number of tools ends every rendering, so that only tags find the answer.
  OpenedChat chat = open_chat({{"files", {file}}, {"train_on", "all"}}, chat_tokenizer(source));
  CHECK(chat.inputs(chat.read({0}), 0) ==
        "<u>hi</><a>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</>");
}

TEST_CASE("an Alpaca sample trains on its output", "[chat]") {
  CHECK(shown({{"instruction", "do"}, {"input", "x"}, {"output", "y"}}) ==
        "<u>do\nx</><a>y\n"
        "......y</>");
  CHECK(shown({{"instruction", "do"},
               {"input", ""},
               {"output", "y"},
               {"system", "S"},
               {"history", Json::array({Json::array({"a", "b"})})}}) ==
        "<s>S</><u>a</><a>b</><u>do</><a>y\n"
        ".............y</>");
}

TEST_CASE("a prompt and its completion may be messages", "[chat]") {
  CHECK(
      shown({{"prompt", {message("user", "hi"), message("assistant", "no"), message("user", "so")}},
             {"completion", {message("assistant", "yo")}}}) ==
      "<u>hi</><a>no</><u>so</><a>yo\n"
      "............yo</>");
}

TEST_CASE("a prompt and its completion may be text, which ends with eos", "[chat]") {
  CHECK(shown({{"prompt", "2+2="}, {"completion", "4"}}) ==
        "<bos>2+2=4\n"
        "....4<eos>");
  CHECK(shown({{"prompt", "2+2="}, {"completion", "4"}}, {{"train_on", "all"}}) ==
        "<bos>2+2=4\n"
        "2+2=4<eos>");
}

TEST_CASE("a preference pair is a row of two segments", "[chat]") {
  const ScratchFolder folder;
  const std::string file =
      write_chats(folder,
                  "a.jsonl",
                  {{{"prompt", {message("user", "q")}},
                    {"chosen", {message("assistant", "yes")}},
                    {"rejected", {message("assistant", "no")}}},
                   {{"conversations", {{{"from", "human"}, {"value", "q"}}}},
                    {"chosen", {{"from", "gpt"}, {"value", "a"}}},
                    {"rejected", {{"from", "gpt"}, {"value", "b"}}}},
                   {{"chosen", {message("user", "q"), message("assistant", "c")}},
                    {"rejected", {message("user", "q"), message("assistant", "d")}}},
                   {{"prompt", "q"}, {"chosen", "e"}, {"rejected", "f"}}});
  OpenedChat chat = open_chat({{"files", {file}}});
  CHECK(chat.size() == 4);
  CHECK(chat.lengths() == std::vector<int64_t>{13, 10, 10, 6});
  const Batch batch = chat.read({1, 0});
  CHECK(chat.inputs(batch, 0) == "<u>q</><a>a<u>q</><a>b<eos><eos><eos>");
  CHECK(chat.labels(batch, 0) == "...a</>...b</>...");
  CHECK(chat.inputs(batch, 1) == "<u>q</><a>yes<u>q</><a>no");
  CHECK(chat.labels(batch, 1) == "...yes</>...no</>");
  const auto row = [&](const char* field, int64_t i) {
    const at::Tensor one = (*batch.find(field))[i].contiguous();
    return std::vector<int64_t>(one.const_data_ptr<int64_t>(),
                                one.const_data_ptr<int64_t>() + one.numel());
  };
  CHECK(row("segment_ids", 0) == std::vector<int64_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2});
  CHECK(row("position_ids", 0) == std::vector<int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 0, 0});
  CHECK(row("segment_ids", 1) == std::vector<int64_t>{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1});
  CHECK(chat.shown(2) == "<u>q</><a>c<u>q</><a>d\n...c</>...d</>");
  CHECK(chat.shown(3) == "<bos>qe<bos>qf\n.e<eos>.f<eos>");
}

TEST_CASE("rows of a batch are padded to the longest sample, and lengths are known", "[chat]") {
  const ScratchFolder folder;
  const std::string file =
      write_chats(folder, "a.jsonl", {chat_of({"h", "y"}), chat_of({"hello", "yes"})});
  OpenedChat chat = open_chat({{"files", {file}}});
  CHECK(chat.lengths() == std::vector<int64_t>{5, 11});
  const Batch batch = chat.read({0, 1});
  CHECK(batch.samples == 2);
  CHECK(batch.tokens == 16);
  CHECK(chat.inputs(batch, 0) == "<u>h</><a>y<eos><eos><eos><eos><eos><eos>");
  CHECK(chat.labels(batch, 0) == "...y</>......");
  CHECK(chat.inputs(batch, 1) == "<u>hello</><a>yes");
}

TEST_CASE("a JSON list has the samples of JSON lines", "[chat]") {
  const ScratchFolder folder;
  const Json list = {chat_of({"a[{\"", "b]}\\"}), chat_of({"c", "d"})};
  const std::string pretty =
      folder.write("a.json", "\xef\xbb\xbf \n" + list.dump(2) + "\n").string();
  OpenedChat chat = open_chat({{"files", {pretty}}});
  CHECK(chat.size() == 2);
  CHECK(chat.shown(0) == "<u>a[{\"</><a>b]}\\\n......b]}\\</>");
  CHECK(chat.shown(1) == "<u>c</><a>d\n...d</>");
}

TEST_CASE("the template of a file takes the place of the tokenizer's", "[chat]") {
  const ScratchFolder folder;
  const std::string other =
      folder
          .write("t.jinja",
                 "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token if m.role == "
                 "'assistant' }}{% endfor %}")
          .string();
  const std::string file = write_chats(folder, "a.jsonl", {chat_of({"q", "a"})});
  OpenedChat chat = open_chat({{"files", {file}}, {"template", other}});
  CHECK(chat.shown(0) == "<bos>qa\n.a<eos>");
}

TEST_CASE("chats can have their own tools and variables of the template", "[chat]") {
  const ScratchFolder folder;
  const std::string source =
      "{{ tools | map(attribute='name') | join(',') if tools else '-' }};{{ style }};"
      "{% for m in messages %}{{ m.content }}{% endfor %}";
  Json own = chat_of({"q", "a"});
  own["tools"] = {{{"name", "own"}}};
  own["chat_template_kwargs"] = {{"style", "short"}};
  const std::string file = write_chats(folder, "a.jsonl", {chat_of({"q", "a"}), own});
  const std::string tools = folder.write("tools.json", R"([{"name": "all"}])").string();
  OpenedChat chat = open_chat({{"files", {file}}, {"tools", tools}}, chat_tokenizer(source));
  CHECK(chat.inputs(chat.read({0}), 0) == "all;;q");
  CHECK(chat.inputs(chat.read({1}), 0) == "own;short;q");
}

TEST_CASE("the byte tokenizer encodes chats", "[chat]") {
  const ScratchFolder folder;
  const std::string other = folder.write("t.jinja", kChatTurns).string();
  const std::string file = write_chats(folder, "a.jsonl", {chat_of({"q", "ä"})});
  OpenedChat chat = open_chat({{"files", {file}}, {"template", other}}, Json::object(), "byte");
  CHECK(chat.shown(0) ==
        "<u>q</><a>ä</\n"
        ".........ä</>");
}

TEST_CASE("many samples keep their order, whichever thread encoded them", "[chat]") {
  const ScratchFolder folder;
  std::vector<Json> samples;
  for (int i = 0; i < 500; ++i) {
    samples.push_back(chat_of({"q", std::to_string(i)}));
  }
  const std::string file = write_chats(folder, "a.jsonl", samples);
  OpenedChat chat = open_chat({{"files", {file}}});
  REQUIRE(chat.size() == 500);
  for (int64_t i = 0; i < 500; ++i) {
    REQUIRE(chat.inputs(chat.read({i}), 0) == "<u>q</><a>" + std::to_string(i));
  }
}

}  // namespace tenon
