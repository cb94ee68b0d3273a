// SPDX-License-Identifier: Apache-2.0
//
// Keys of samples and messages to which other programs give a meaning, and those that nothing
// reads: each has its effect, or is an error.
#include <ATen/ATen.h>

#include "tests/plugins/opened_chat.hpp"

namespace tenon {
namespace {

using Json = nlohmann::json;

std::string shown_sample(const Json& sample, Json options = Json::object()) {
  const ScratchFolder folder;
  options["files"] = {write_chats(folder, "a.jsonl", {sample})};
  return open_chat(options).shown(0);
}

std::string error_of_sample(const Json& sample, Json options = Json::object()) {
  const ScratchFolder folder;
  options["files"] = {write_chats(folder, "a.jsonl", {sample})};
  return chat_error(folder, options);
}

// Two turns, whose first answer has another key.
Json with_key(const std::string& key, const Json& value) {
  Json chat = chat_of({"hi", "yo", "ok", "no"});
  chat["messages"][1][key] = value;
  return chat;
}

const std::string kSecondOnly =
    "<u>hi</><a>yo</><u>ok</><a>no\n"
    "............no</>";
const std::string kBoth =
    "<u>hi</><a>yo</><u>ok</><a>no\n"
    "....yo</>.....no</>";

Json said(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

}  // namespace

TEST_CASE("keys that other programs give a meaning say whether to train on a message", "[chat]") {
  const std::vector<std::pair<std::string, Json>> no = {{"weight", 0},
                                                        {"weight", 0.0},
                                                        {"training", false},
                                                        {"trainable", false},
                                                        {"loss", false},
                                                        {"loss_scale", 0},
                                                        {"masked", true}};
  for (const auto& [key, value] : no) {
    CAPTURE(key);
    CHECK(shown_sample(with_key(key, value)) == kSecondOnly);
  }
  CHECK(shown_sample(with_key("weight", 1)) == kBoth);
  CHECK(shown_sample(with_key("training", true)) == kBoth);
  CHECK(shown_sample(with_key("weight", nullptr)) == kBoth);
  const Json turns = {{"conversations",
                       {{{"from", "human"}, {"value", "hi"}},
                        {{"from", "gpt"}, {"value", "yo"}, {"weight", 0}},
                        {{"from", "human"}, {"value", "ok"}},
                        {{"from", "gpt"}, {"value", "no"}}}}};
  CHECK(shown_sample(turns) == kSecondOnly);
}

TEST_CASE("a weight or mask that cannot be followed is an error", "[chat]") {
  CHECK_THAT(error_of_sample(with_key("weight", 0.5)),
             contains_text("a.jsonl, line 1: message 2 of \"messages\": \"weight\" is 0.5; weights "
                           "other than 0 and 1 are not supported"));
  CHECK_THAT(error_of_sample(with_key("mask", 1)),
             contains_text("message 2 of \"messages\": \"mask\" means opposite things in other "
                           "programs; write \"train\": true or false instead"));
  Json chat = with_key("weight", 0);
  chat["messages"][1]["train"] = true;
  CHECK_THAT(error_of_sample(chat), contains_text("contradict"));
  CHECK_THAT(error_of_sample(with_key("function_call", {{"name", "f"}})),
             contains_text("\"function_call\" is the old form of a call; write \"tool_calls\": "));
}

TEST_CASE("keys of samples with a meaning are errors that say what to do", "[chat]") {
  const Json kto = {
      {"prompt", {said("user", "q")}}, {"completion", {said("assistant", "a")}}, {"label", true}};
  CHECK_THAT(error_of_sample(kto),
             contains_text("a.jsonl, line 1: \"label\" says whether one answer is good, as for "
                           "KTO, which is not supported; make pairs of \"chosen\" and "
                           "\"rejected\". If all samples are good, add the key to `ignore`"));
  CHECK(shown_sample(kto, {{"ignore", {"label"}}}) == "<u>q</><a>a\n...a</>");
  Json media = chat_of({"q", "a"});
  media["images"] = {"a.png"};
  CHECK_THAT(error_of_sample(media), contains_text("\"images\" holds media"));
  media["images"] = Json::array();
  CHECK(shown_sample(media) == "<u>q</><a>a\n...a</>");
  Json all = chat_of({"q", "a"});
  all["train"] = false;
  CHECK_THAT(error_of_sample(all), contains_text("has no label to train on"));
}

TEST_CASE("unknown keys of all files are one error with the line to copy", "[chat]") {
  const ScratchFolder folder;
  Json first = chat_of({"q", "a"});
  first["id"] = 1;
  Json second = with_key("tarin", false);
  second["source"] = {{"a", 1}};
  const std::string a = write_chats(folder, "a.jsonl", {chat_of({"q", "a"}), first, first});
  const std::string b = write_chats(folder, "b.jsonl", {second});
  CHECK_THAT(chat_error(folder, {{"files", {a, b}}, {"ignore", {"note"}}}),
             contains_text("nothing reads these keys of the samples: \"id\" (first at a.jsonl, "
                           "line 2), \"source\" (first at b.jsonl, line 1), \"tarin\" (first at "
                           "b.jsonl, line 1); if training does not need them, set \"ignore\": "
                           "[\"note\", \"id\", \"source\", \"tarin\"]"));
  CHECK(open_chat({{"files", {a, b}}, {"ignore", {"id", "source", "tarin"}}}).size() == 4);
  // A key that the template reads is no unknown key.
  const std::string source = std::string(kChatTurns) + "{{ messages[0].mood }}";
  Json moody = chat_of({"q", "a"});
  moody["messages"][0]["mood"] = "x";
  const std::string c = write_chats(folder, "c.jsonl", {moody});
  OpenedChat chat = open_chat({{"files", {c}}, {"train_on", "all"}}, chat_tokenizer(source));
  CHECK(chat.inputs(chat.read({0}), 0) == "<u>q</><a>a</>");
}

TEST_CASE("a system text beside messages or a prompt is the first message", "[chat]") {
  Json chat = chat_of({"q", "a"});
  chat["system"] = "S";
  CHECK(shown_sample(chat) == "<s>S</><u>q</><a>a\n......a</>");
  CHECK(shown_sample({{"system_prompt", "S"},
                      {"prompt", {said("user", "q")}},
                      {"completion", {said("assistant", "a")}}}) ==
        "<s>S</><u>q</><a>a\n......a</>");
  CHECK(shown_sample({{"system", "S"},
                      {"prompt", "q"},
                      {"chosen", {said("assistant", "a")}},
                      {"rejected", {said("assistant", "b")}}}) ==
        "<s>S</><u>q</><a>a<s>S</><u>q</><a>b\n......a</>......b</>");
  CHECK(shown_sample({{"system", "S"},
                      {"chosen", {said("user", "q"), said("assistant", "a")}},
                      {"rejected", {said("user", "q"), said("assistant", "b")}}}) ==
        "<s>S</><u>q</><a>a<s>S</><u>q</><a>b\n......a</>......b</>");
  chat["messages"].insert(chat["messages"].begin(), said("system", "T"));
  CHECK_THAT(error_of_sample(chat),
             contains_text("\"system\" stands beside messages that begin with a system message"));
  CHECK_THAT(error_of_sample({{"system", "S"}, {"prompt", "q"}, {"completion", "a"}}),
             contains_text("\"system\" stands beside texts, which no chat template renders"));
}

TEST_CASE("prompts of pairs may be instructions, or repeated by the answers", "[chat]") {
  const std::string pair = "<u>q</><a>a<u>q</><a>b\n...a</>...b</>";
  CHECK(shown_sample({{"instruction", "q"}, {"input", ""}, {"chosen", "a"}, {"rejected", "b"}}) ==
        pair);
  CHECK(shown_sample({{"prompt", {said("user", "q")}},
                      {"chosen", {said("user", "q"), said("assistant", "a")}},
                      {"rejected", {said("user", "q"), said("assistant", "b")}}}) == pair);
  Json named = said("assistant", "a");
  named["name"] = "x";
  CHECK_THAT(error_of_sample({{"prompt", {said("user", "q")}},
                              {"chosen", {said("assistant", "a")}},
                              {"rejected", {named}}}),
             contains_text("\"chosen\" and \"rejected\" have equal tokens"));
}

TEST_CASE("pairs that a cut makes equal are dropped", "[chat]") {
  const ScratchFolder folder;
  const std::string file = write_chats(folder,
                                       "a.jsonl",
                                       {{{"prompt", {said("user", "q")}},
                                         {"chosen", {said("assistant", "same start a")}},
                                         {"rejected", {said("assistant", "same start b")}}},
                                        {{"prompt", {said("user", "q")}},
                                         {"chosen", {said("assistant", "a")}},
                                         {"rejected", {said("assistant", "b")}}}});
  CHECK(open_chat({{"files", {file}}, {"max_length", 8}, {"overlong", "cut"}}).size() == 1);
}

TEST_CASE("special tokens in texts are an error until an option says what they are", "[chat]") {
  const Json sample = {{"prompt", "<u>q</><a>"}, {"completion", "a</>"}};
  CHECK_THAT(error_of_sample(sample),
             contains_text("a.jsonl, line 1: the text has a special token at \"<u>q</><a>\", and "
                           "the option `special_tokens` does not say what it is; set it to "
                           "\"recognize\" if a template has rendered the text, or to \"text\""));
  const ScratchFolder folder;
  const std::string file = write_chats(folder, "a.jsonl", {sample});
  const auto length = [&](const std::string& option) {
    return open_chat({{"files", {file}}, {"special_tokens", option}}).lengths();
  };
  CHECK(length("recognize") == std::vector<int64_t>{1 + 3 + 1 + 2});
  CHECK(length("text") == std::vector<int64_t>{1 + 10 + 4});
  // Text of its own that begins with the token that the vocabulary puts before texts.
  CHECK(shown_sample({{"prompt", "<bos>q"}, {"completion", "a"}},
                     {{"special_tokens", "recognize"}}) == "<bos>qa\n.a<eos>");
}

TEST_CASE("all bad samples are reported at once, or skipped and counted", "[chat]") {
  const ScratchFolder folder;
  const Json empty = chat_of({"q", " "});
  Json role = chat_of({"q", "a"});
  role["messages"][0]["role"] = "narrator";
  const std::string a = write_chats(folder, "a.jsonl", {chat_of({"q", "a"}), empty});
  const std::string b = write_chats(folder, "b.jsonl", {role, chat_of({"r", "b"})});
  const std::string error = chat_error(folder, {{"files", {a, b}}});
  CHECK_THAT(error, contains_text("a.jsonl, line 2: message 2 of \"messages\" is an empty answer"));
  CHECK_THAT(error, contains_text("; 1 more bad samples:\n  b.jsonl, line 1: message 1 of "));
  CHECK_THAT(error, contains_text("set `bad_samples` to \"skip\" to drop them"));
  CHECK(open_chat({{"files", {a, b}}, {"bad_samples", "skip"}}).size() == 2);
}

TEST_CASE("JSON that is nested too deep, or has too large numbers, is an error", "[chat]") {
  const ScratchFolder folder;
  const auto options_of = [&](const std::string& key, const std::string& value) {
    const std::string line =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
        "\"assistant\", \"content\": \"a\"}], \"" +
        key + "\": " + value + "}\n";
    return Json{{"files", {folder.write("a.jsonl", line).string()}}};
  };
  const auto error = [&](const std::string& key, const std::string& value) {
    return chat_error(folder, options_of(key, value));
  };
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK_THAT(error("tools", deep),
             contains_text("a.jsonl, line 1: the JSON is nested more than 128 deep"));
  CHECK_THAT(error("tools", Json(deep).dump()),
             contains_text("a.jsonl, line 1: \"tools\": the JSON is nested more than 128 deep"));
  CHECK_THAT(error("tools", "[{\"max\": 1000000000000000000000}]"),
             contains_text("the whole number 1000000000000000000000 does not fit into 64 bits"));
  for (const std::string& value : {deep, std::string("1000000000000000000000")}) {
    Json options = options_of("meta", value);
    options["ignore"] = {"meta"};
    CHECK(open_chat(options).size() == 1);
  }
}

TEST_CASE("answers without text in any part are empty", "[chat]") {
  Json chat = chat_of({"q", "a"});
  chat["messages"][1]["content"] = {{{"type", "text"}, {"text", " "}}};
  CHECK_THAT(error_of_sample(chat), contains_text("is an empty answer of the assistant"));
}

TEST_CASE("a special token that takes the white space of an answer has no label", "[chat]") {
  const auto added = [](int id, const std::string& content) {
    return Json{{"id", id},
                {"content", content},
                {"single_word", false},
                {"lstrip", false},
                {"rstrip", content != "</>"},
                {"normalized", false},
                {"special", true}};
  };
  const Json tokenizer = {{"version", "1.0"},
                          {"added_tokens", {added(0, "<a>"), added(1, "<u>"), added(2, "</>")}},
                          {"model",
                           {{"type", "WordLevel"},
                            {"unk_token", "x"},
                            {"vocab", {{"<a>", 0}, {"<u>", 1}, {"</>", 2}, {"x", 3}}}}}};
  const ScratchFolder folder;
  const std::string file = folder.write("tokenizer.json", tokenizer.dump()).string();
  const std::string source =
      "{% for m in messages %}{{ '<u>' if m.role == 'user' else '<a>' }}{{ '\\n' }}"
      "{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<a>{{ '\\n' }}{% endif %}";
  OpenedChat chat =
      open_chat({{"files", {write_chats(folder, "a.jsonl", {chat_of({"x", " \n x"})})}},
                 {"template", folder.write("t.jinja", source).string()}},
                {{"file", file}},
                "hf");
  const Batch batch = chat.read({0});
  CHECK(at::equal(*batch.find("input_ids"), at::tensor({1, 3, 2, 0, 3}, at::kLong).view({1, 5})));
  CHECK(at::equal(*batch.find("labels"),
                  at::tensor({-100, -100, -100, 3, 2}, at::kLong).view({1, 5})));
}

TEST_CASE("files that are compressed or in UTF-16 are named so", "[chat]") {
  const ScratchFolder folder;
  const auto error = [&](const std::string& bytes) {
    return chat_error(folder, {{"files", {folder.write("a.jsonl", bytes).string()}}});
  };
  CHECK_THAT(error("\x1f\x8b\x08"), contains_text("a.jsonl is compressed by gzip; decompress it"));
  CHECK_THAT(error("\xff\xfe{"), contains_text("a.jsonl is in UTF-16; convert it to UTF-8"));
}

TEST_CASE("only the answers that are trained have to stay in the rendering", "[chat]") {
  // As Qwen3's: an answer has another text while it is the last.
  const std::string source =
      "{% for m in messages %}{% if m.role == 'assistant' %}<a>{{ '*' if loop.last }}"
      "{{ m.content }}</>{% else %}<u>{{ m.content }}</>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<a>{% endif %}";
  const ScratchFolder folder;
  Json flagged = chat_of({"hi", "yo", "ok", "no"});
  flagged["messages"][1]["train"] = false;
  const auto opened = [&](const Json& sample, Json options) {
    options["files"] = {write_chats(folder, "a.jsonl", {sample})};
    return open_chat(options, chat_tokenizer(source)).shown(0);
  };
  const std::string last =
      "<u>hi</><a>yo</><u>ok</><a>*no\n"
      "............*no</>";
  const Json chat = chat_of({"hi", "yo", "ok", "no"});
  CHECK(opened(chat, {{"train_on", "last"}}) == last);
  CHECK(opened(flagged, Json::object()) == last);
  const Json& m = chat["messages"];
  CHECK(opened({{"prompt", {m[0], m[1], m[2]}}, {"completion", {m[3]}}}, Json::object()) == last);
  CHECK(opened({{"prompt", {m[0], m[1], m[2]}},
                {"chosen", {m[3]}},
                {"rejected", {said("assistant", "x")}}},
               Json::object()) ==
        "<u>hi</><a>yo</><u>ok</><a>*no<u>hi</><a>yo</><u>ok</><a>*x\n"
        "............*no</>............*x</>");
  CHECK_THAT(
      chat_error(
          folder, {{"files", {write_chats(folder, "a.jsonl", {chat})}}}, chat_tokenizer(source)),
      contains_text("message 2: the rendering does not start with that of the messages up "
                    "to it") &&
          contains_text("option `train_on`: \"last\", or `template`"));
}

TEST_CASE("a tagged template takes the place of the family's", "[chat]") {
  const ScratchFolder folder;
  const std::string file = write_chats(folder, "a.jsonl", {chat_of({"hi", "yo", "ok", "no"})});
  OpenedChat chat = open_chat({{"files", {file}}, {"tagged_template", "qwen3"}});
  const std::string row = chat.shown(0);
  CHECK(row.substr(0, row.find('\n')) == "<|im_start|>user");
  CHECK(row.find("..yo<|im_end|>") != std::string::npos);
  CHECK_THAT(chat_error(folder,
                        {{"files", {file}},
                         {"tagged_template", "qwen3"},
                         {"template", folder.write("t.jinja", "x").string()}}),
             contains_text("`template` and `tagged_template` are both set"));
}

TEST_CASE("a chat_template.jinja takes the place of the templates in tokenizer_config.json",
          "[chat]") {
  const ScratchFolder folder;
  const Json vocabulary = {{"default", 0}, {"tools", 1}, {"alone", 2}, {"a", 3}};
  folder.write("tokenizer.json",
               Json{{"version", "1.0"},
                    {"pre_tokenizer", {{"type", "Whitespace"}}},
                    {"model", {{"type", "WordLevel"}, {"unk_token", "a"}, {"vocab", vocabulary}}}}
                   .dump());
  const auto source = [](const std::string& word) {
    return "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
           "{% endgeneration %}{% else %}" +
           word + " {% endif %}{% endfor %}";
  };
  const Json list = {{{"name", "default"}, {"template", source("default")}},
                     {{"name", "tool_use"}, {"template", source("tools")}}};
  folder.write("tokenizer_config.json", Json{{"chat_template", list}}.dump());
  Json sample = chat_of({"hi", "a"});
  const Json function = {{"name", "f"}, {"description", "d"}, {"parameters", Json::object()}};
  sample["tools"] = {{{"type", "function"}, {"function", function}}};
  const std::string file = write_chats(folder, "a.jsonl", {sample});
  const auto first_id = [&] {
    OpenedChat chat = open_chat({{"files", {file}}}, {{"file", folder.path().string()}}, "hf");
    return chat.read({0}).find("input_ids")->view(-1)[0].item<int64_t>();
  };
  CHECK(first_id() == 1);
  folder.write("chat_template.jinja", source("alone"));
  CHECK(first_id() == 2);
}

TEST_CASE("the place of a sample is its line, or the samples that it is one of", "[chat]") {
  const ScratchFolder folder;
  const Json good = chat_of({"hi", "yo"});
  Json untrained = good;
  untrained["messages"][1]["train"] = false;
  const std::string all =
      folder.write("a.jsonl", "\n" + good.dump() + "\n\n" + good.dump()).string();
  const std::string some = write_chats(folder, "b.jsonl", {untrained, good});
  OpenedChat chat = open_chat({{"files", {all, some}}});
  REQUIRE(chat.size() == 3);
  CHECK(chat.source.place_of(nullptr, 0) == all + ", line 2");
  CHECK(chat.source.place_of(nullptr, 1) == all + ", line 4");
  CHECK(chat.source.place_of(nullptr, 2) == some + ", samples 1 to 2");
  CHECK(chat.source.place_of(nullptr, 3).empty());
}

TEST_CASE("parts of content are texts", "[chat]") {
  const ScratchFolder folder;
  const auto error = [&](const Json& content) {
    Json sample = chat_of({"hi", "yo"});
    sample["messages"][0]["content"] = content;
    return chat_error(folder, {{"files", {write_chats(folder, "a.jsonl", {sample})}}});
  };
  const Json text = {{"type", "text"}, {"text", "What?"}};
  const std::string second = "message 1 of \"messages\": part 2 of \"content\"";
  for (const Json& image : {Json{{"type", "image"}, {"image", "a.png"}},
                            Json{{"type", "image_url"}, {"image_url", {{"url", "a.png"}}}}}) {
    CHECK_THAT(error({text, image}),
               contains_text(second + " is of the type \"image") &&
                   contains_text("media are not supported"));
  }
  CHECK_THAT(error({text, {{"type", "text"}, {"txt", "x"}}}),
             contains_text(second + " has no \"text\" that is a string"));
  CHECK_THAT(error({text, "x"}),
             contains_text(second + " is a string, expected {\"type\": \"text\""));
  CHECK_THAT(error({text, {{"text", "x"}}}), contains_text(second + " is an object without"));
  // The template of these tests has no parts, and would print a list of Python.
  CHECK_THAT(error(Json::array({text})),
             contains_text("the template prints content that is a list of parts"));
  const Json turns = {{{"from", "human"}, {"value", "hi"}}, {{"from", "gpt"}, {"value", nullptr}}};
  CHECK_THAT(
      chat_error(folder,
                 {{"files", {write_chats(folder, "b.jsonl", {Json{{"conversations", turns}}})}}}),
      contains_text("message 2 of \"conversations\" has no \"value\""));
}

}  // namespace tenon
