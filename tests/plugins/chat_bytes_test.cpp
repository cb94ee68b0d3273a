// SPDX-License-Identifier: Apache-2.0
//
// The bytes of text that labels of the dataset `chat` stand for, counted by hand.
#include <ATen/ATen.h>

#include "tests/plugins/opened_chat.hpp"

namespace tenon {
namespace {

using Json = nlohmann::json;

// The labels of a sample and their bytes: "y1 o1 </>3".
std::string labels_and_bytes(OpenedChat& chat, int64_t sample) {
  const Batch batch = chat.read({sample});
  const at::Tensor labels_T = (*batch.find("labels"))[0].contiguous();
  const at::Tensor bytes_T = (*batch.find("label_bytes"))[0].contiguous();
  std::string text;
  for (int64_t t = 0; t < labels_T.numel(); ++t) {
    const int64_t label = labels_T.const_data_ptr<int64_t>()[t];
    const int64_t bytes = bytes_T.const_data_ptr<int64_t>()[t];
    if (label == -100) {
      CHECK(bytes == 0);
      continue;
    }
    text += (text.empty() ? "" : " ") + std::to_string(label) + ":" + std::to_string(bytes);
  }
  return text;
}

int64_t sum_of_bytes(OpenedChat& chat, int64_t sample) {
  return chat.read({sample}).find("label_bytes")->sum().item<int64_t>();
}

// Tokens of parts of characters: 0 a, 1 b, 2 a space, 3 and 4 the bytes of \xc3\xa9, 5 ab.
constexpr char kBpe[] = R"({
  "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null,
  "decoder": {"type": "ByteLevel"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u0120": 2, "\u00c3": 3, "\u00a9": 4,
                                     "ab": 5}, "merges": [["a", "b"]]}})";

}  // namespace

TEST_CASE("labels of a chat have the bytes of the answers, special tokens included", "[chat]") {
  const ScratchFolder folder;
  const std::string file = write_chats(
      folder, "a.jsonl", {chat_of({"hi", "yo", "ok", "\xc3\xa4"}), chat_of({"longer", "no"})});
  OpenedChat chat = open_chat({{"files", {file}}, {"label_bytes", true}});
  // 259 is "</>".
  CHECK(labels_and_bytes(chat, 0) == "121:1 111:1 259:3 195:1 164:1 259:3");
  CHECK(sum_of_bytes(chat, 1) == 2 + 3);
  const Batch both = chat.read({1, 0});
  CHECK(both.find("label_bytes")->sizes() == both.find("labels")->sizes());
  CHECK(both.find("label_bytes")->sum().item<int64_t>() == 2 + 3 + 2 + 3 + 2 + 3);
  OpenedChat last = open_chat({{"files", {file}}, {"label_bytes", true}, {"train_on", "last"}});
  CHECK(sum_of_bytes(last, 0) == 2 + 3);
  // The first token, "<u>", is no label.
  OpenedChat all = open_chat({{"files", {file}}, {"label_bytes", true}, {"train_on", "all"}});
  CHECK(sum_of_bytes(all, 1) == 6 + 3 + 3 + 2 + 3);
  CHECK(open_chat({{"files", {file}}}).read({0}).find("label_bytes") == nullptr);
}

TEST_CASE("bytes outside of answers do not count, even in a token that reaches into one",
          "[chat]") {
  const ScratchFolder folder;
  const std::string tokenizer = folder.write("tokenizer.json", kBpe).string();
  const std::string plain =
      folder.write("t.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}").string();
  const std::string file = write_chats(folder,
                                       "a.jsonl",
                                       {chat_of({"ab \xc3\xa9", " ab \xc3\xa9"}),
                                        chat_of({"aa", "b a"}),
                                        chat_of({"ab", " a", "b b", "b"})});
  OpenedChat chat = open_chat(
      {{"files", {file}}, {"template", plain}, {"label_bytes", true}}, {{"file", tokenizer}}, "hf");
  CHECK(labels_and_bytes(chat, 0) == "2:1 5:2 2:1 3:0 4:2");
  CHECK(labels_and_bytes(chat, 1) == "5:1 2:1 0:1");  // "a", "ab", " ", "a"
  CHECK(labels_and_bytes(chat, 2) == "2:1 5:1 1:1");  // "ab", " ", "ab", " ", "b", "b"
}

TEST_CASE("bytes of labels follow cut and split samples, pairs and plain text", "[chat]") {
  const ScratchFolder folder;
  const std::string file = write_chats(folder, "a.jsonl", {chat_of({"hi", "abcdefgh"})});
  const auto open = [&](const Json& more) {
    Json options = {{"files", {file}}, {"label_bytes", true}};
    options.update(more);
    return open_chat(options);
  };
  OpenedChat cut = open({{"overlong", "cut"}, {"max_length", 8}});
  CHECK(sum_of_bytes(cut, 0) == 3);
  OpenedChat split = open({{"overlong", "split"}, {"max_length", 6}});
  int64_t sum = 0;
  for (int64_t i = 0; i < split.size(); ++i) {
    sum += sum_of_bytes(split, i);
  }
  CHECK(sum == 8 + 3);
  OpenedChat text = open(
      {{"files", {write_chats(folder, "b.jsonl", {{{"prompt", "2+2="}, {"completion", "4"}}})}}});
  CHECK(labels_and_bytes(text, 0) == "52:1 261:0");  // the added <eos> is no text
  OpenedChat pair =
      open({{"files",
             {write_chats(
                 folder, "c.jsonl", {{{"prompt", "q"}, {"chosen", "yes"}, {"rejected", "no"}}})}}});
  CHECK(sum_of_bytes(pair, 0) == 3 + 2);
}

TEST_CASE("bytes of labels are kept in shards of their own", "[chat]") {
  const ScratchFolder folder;
  const std::string file = write_chats(folder, "a.jsonl", {chat_of({"hi", "yo"})});
  Json options = {{"files", {file}}, {"cache", (folder.path() / "cache").string()}};
  open_chat(options);
  options["label_bytes"] = true;
  for (int i = 0; i < 2; ++i) {  // built, then read
    OpenedChat chat = open_chat(options);
    CHECK(labels_and_bytes(chat, 0) == "121:1 111:1 259:3");
    CHECK(chat.shown(0) == "<u>hi</><a>yo\n....yo</>");
  }
}

}  // namespace tenon
