// SPDX-License-Identifier: Apache-2.0
//
// Bad samples of the dataset `chat`: each is named with its file and line.
#include "host/log/log.hpp"

#include <ATen/ATen.h>

#include <fstream>
#include <iterator>

#include "tests/plugins/opened_chat.hpp"

namespace tenon {
namespace {

using Json = nlohmann::json;

const std::string kGood = R"({"messages": [{"role": "user", "content": "q"}, )"
                          R"({"role": "assistant", "content": "a"}]})";

// The error of a file whose third line is `line`.
std::string error_of_line(const std::string& line, Json options = Json::object()) {
  const ScratchFolder folder;
  options["files"] = {
      folder.write("a.jsonl", kGood + "\n\n" + line + "\n" + kGood + "\n").string()};
  return chat_error(folder, options);
}

// A line of messages.
std::string messages(const std::string& list) {
  return R"({"messages": [)" + list + "]}";
}

// What the log says while a dataset is opened.
std::string log_of(const Json& options) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "log.txt").string();
  attach_log_file(file);
  open_chat(options);
  flush_log();
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a line that is not JSON is named", "[chat]") {
  CHECK_THAT(error_of_line("{\"messages\": [}"),
             contains_text("a.jsonl, line 3: not valid JSON at byte 15 of the sample: "));
  CHECK_THAT(error_of_line("[1]"),
             contains_text("a.jsonl, line 3: the sample is a list, expected a JSON object"));
}

TEST_CASE("a line that is not UTF-8 is named", "[chat]") {
  CHECK_THAT(
      error_of_line("{\"messages\": \"\xff\"}"),
      contains_text("a.jsonl, line 3: not UTF-8 at byte 15 of the sample; convert the file to "
                    "UTF-8"));
  CHECK_THAT(error_of_line("{\"messages\": \"\xed\xa0\x80\"}"),
             contains_text("not UTF-8 at byte 15"));
}

TEST_CASE("a sample with missing or wrong keys is named", "[chat]") {
  CHECK_THAT(error_of_line("{}"),
             contains_text("a.jsonl, line 3: the key \"messages\" is missing"));
  CHECK_THAT(error_of_line(R"({"messages": 1})"),
             contains_text("a.jsonl, line 3: \"messages\" is a number, expected a list"));
  CHECK_THAT(error_of_line(messages("")), contains_text("the sample has no messages"));
  CHECK_THAT(error_of_line(messages("1")),
             contains_text("message 1 of \"messages\" is a number, expected an object"));
  CHECK_THAT(error_of_line(messages("{}")),
             contains_text("message 1 of \"messages\" has no \"role\""));
  CHECK_THAT(error_of_line(messages(R"({"role": "user", "content": 1})")),
             contains_text("\"content\" is a number, expected a string or a list"));
  CHECK_THAT(error_of_line(messages(R"({"role": "user", "content": "", "train": 1})")),
             contains_text("\"train\" is a number, expected a boolean"));
  CHECK_THAT(error_of_line(R"({"messages": [{"role": "user", "content": "q"}], "tools": 1})"),
             contains_text("\"tools\" is neither a list nor JSON text of a list"));
  CHECK_THAT(error_of_line(R"({"a": 1, "b": 2})", {{"format", "auto"}}),
             contains_text("a.jsonl, line 3: the key \"messages\" is missing"));
}

TEST_CASE("a preference pair whose conversation is no list is named", "[chat]") {
  const ScratchFolder folder;
  for (const Json& turns : {Json("q"), Json::object({{"from", "human"}}), Json(1)}) {
    const Json sample = {{"conversations", turns}, {"chosen", "a"}, {"rejected", "b"}};
    CHECK_THAT(chat_error(folder, {{"files", {write_chats(folder, "a.jsonl", {sample})}}}),
               contains_text("a.jsonl, line 1: \"conversations\" is ") &&
                   contains_text(", expected a list"));
  }
}

TEST_CASE("a file in no format lists the keys that it has", "[chat]") {
  const ScratchFolder folder;
  const Json options = {{"files", {folder.write("a.jsonl", R"({"text": "x", "id": 1})").string()}}};
  CHECK_THAT(chat_error(folder, options),
             contains_text("a.jsonl, line 1: the keys of the sample are those of no format (found "
                           "\"text\", \"id\"); expected \"messages\", "));
}

TEST_CASE("an unknown role is named", "[chat]") {
  CHECK_THAT(
      error_of_line(messages(R"({"role": "narrator", "content": "q"})")),
      contains_text("a.jsonl, line 3: message 1 of \"messages\" has the unknown role "
                    "\"narrator\" (expected system, developer, user, assistant, tool, function "
                    "or ipython)"));
  const ScratchFolder folder;
  const Json sample = {{"conversations", {{{"from", "alien"}, {"value", "x"}}}}};
  CHECK_THAT(chat_error(folder, {{"files", {write_chats(folder, "a.jsonl", {sample})}}}),
             contains_text("message 1 of \"conversations\" is from the unknown role \"alien\""));
}

TEST_CASE("an empty answer is named", "[chat]") {
  CHECK_THAT(error_of_line(messages(R"({"role": "user", "content": "q"}, )"
                                    R"({"role": "assistant", "content": " \n"})")),
             contains_text("a.jsonl, line 3: message 2 of \"messages\" is an empty answer of the "
                           "assistant; remove the sample, or set \"train\": false"));
  const ScratchFolder folder;
  const auto error = [&](const Json& sample) {
    return chat_error(folder, {{"files", {write_chats(folder, "a.jsonl", {sample})}}});
  };
  CHECK_THAT(error({{"instruction", "x"}, {"output", ""}}),
             contains_text("a.jsonl, line 1: \"output\" is an empty answer"));
  CHECK_THAT(error({{"prompt", "x"}, {"completion", ""}}),
             contains_text("a.jsonl, line 1: \"completion\" is empty; remove the sample"));
}

TEST_CASE("equal chosen and rejected are named", "[chat]") {
  const ScratchFolder folder;
  const Json sample = {{"prompt", "q"}, {"chosen", "a"}, {"rejected", "a"}};
  CHECK_THAT(chat_error(folder, {{"files", {write_chats(folder, "a.jsonl", {sample})}}}),
             contains_text("a.jsonl, line 1: \"chosen\" and \"rejected\" are equal"));
}

TEST_CASE("an error inside of a template is named with both places", "[chat]") {
  const ScratchFolder folder;
  const std::string file =
      write_chats(folder, "a.jsonl", {chat_of({"q", "a"}), chat_of({"bad", "a"})});
  const std::string source =
      "{% for m in messages %}\n{% if m.content == 'bad' %}{{ raise_exception('no ' + m.content) }}"
      "{% endif %}{{ m.content }}{% endfor %}";
  CHECK_THAT(
      chat_error(folder, {{"files", {file}}}, chat_tokenizer(source)),
      contains_text("a.jsonl, line 2: the chat template failed: line 2: the template raised an "
                    "error: no bad"));
  CHECK_THAT(chat_error(folder, {{"files", {file}}}, chat_tokenizer("a\n{% if %}")),
             contains_text("the chat template is invalid: line 2: {% if %} is not closed"));
  CHECK_THAT(
      chat_error(folder, {{"files", {file}}}, chat_tokenizer("")),
      contains_text("a.jsonl, line 1: the tokenizer has no chat template, which messages need; "
                    "set `template` to a file with one"));
}

TEST_CASE("samples without a label are dropped with a warning", "[chat]") {
  const ScratchFolder folder;
  const std::string file =
      write_chats(folder, "a.jsonl", {chat_of({"q", "a"}), chat_of({"q"}), chat_of({"r"})});
  CHECK(open_chat({{"files", {file}}}).size() == 1);
  CHECK_THAT(log_of({{"files", {file}}}),
             contains_text("dropped 2 samples without a label to train on; the first is " + file +
                           ", line 2"));
}

TEST_CASE("a file without a label is an error, even next to a good one", "[chat]") {
  const ScratchFolder folder;
  const std::string good = write_chats(folder, "a.jsonl", {chat_of({"q", "a"})});
  const std::string bad = write_chats(folder, "b.jsonl", {chat_of({"q"}), chat_of({"r"})});
  CHECK_THAT(chat_error(folder, {{"files", {good, bad}}}),
             contains_text("b.jsonl has no label to train on: of 2 samples, 2 have none, and 0 are "
                           "longer than `max_length`"));
  CHECK_THAT(chat_error(folder, {{"files", {good}}, {"max_length", 3}}),
             contains_text("a.jsonl has no label to train on: of 1 samples, 0 have none, and 1 are "
                           "longer than `max_length`"));
  const std::string empty = folder.write("c.jsonl", "\n \n").string();
  CHECK_THAT(chat_error(folder, {{"files", {empty}}}), contains_text("c.jsonl has no samples"));
}

TEST_CASE("over-long samples follow the policy, and are counted", "[chat]") {
  const ScratchFolder folder;
  const std::string file =
      write_chats(folder, "a.jsonl", {chat_of({"q", "a"}), chat_of({"hi", "abcdefgh"})});
  const auto options = [&](const std::string& overlong, int limit) {
    return Json{{"files", {file}}, {"overlong", overlong}, {"max_length", limit}};
  };
  CHECK(open_chat(options("drop", 8)).lengths() == std::vector<int64_t>{5});
  CHECK_THAT(
      log_of(options("drop", 8)),
      contains_text("dropped 1 samples with more than 8 tokens (`max_length`); the first is " +
                    file + ", line 2"));
  CHECK_THAT(
      chat_error(folder, options("error", 8)),
      contains_text("a.jsonl, line 2: the sample has 14 tokens (expected at most `max_length`, "
                    "8); set `overlong` to \"drop\", \"cut\" or \"split\""));
  OpenedChat cut = open_chat(options("cut", 8));
  CHECK(cut.shown(1) == "<u>hi</><a>ab\n....abc");
  CHECK_THAT(log_of(options("cut", 8)), contains_text("cut 1 samples with more than 8 tokens"));
}

TEST_CASE("split parts have each label once", "[chat]") {
  const ScratchFolder folder;
  const std::string file =
      write_chats(folder, "a.jsonl", {chat_of({"q", "a"}), chat_of({"hi", "abcdefgh"})});
  OpenedChat split = open_chat({{"files", {file}}, {"overlong", "split"}, {"max_length", 6}});
  REQUIRE(split.size() == 4);
  CHECK(split.shown(0) == "<u>q</><a>a\n...a</>");
  CHECK(split.shown(1) == "<u>hi</><a>\n....a");
  CHECK(split.shown(2) == "abcde\nbcdef");
  CHECK(split.shown(3) == "fgh\ngh</>");
}

TEST_CASE("a JSON list that is not one is named", "[chat]") {
  const ScratchFolder folder;
  const auto error = [&](const std::string& text) {
    return chat_error(folder, {{"files", {folder.write("a.json", text).string()}}});
  };
  CHECK_THAT(error("[\n" + kGood + ",\n"),
             contains_text("a.json, line 3: the list is not closed, expected ]; the file may be "
                           "truncated"));
  CHECK_THAT(error("[" + kGood + "]\nx"),
             contains_text("a.json, line 2: text after the list, expected the end of the file"));
  CHECK_THAT(error("[" + kGood + ",,]"), contains_text("the list has an empty element"));
  CHECK_THAT(error("[" + kGood + ",\n\n{\"messages\": []}]"),
             contains_text("a.json, line 3 (sample 2): the sample has no messages"));
}

TEST_CASE("options of chats that do not fit are an error", "[chat]") {
  const ScratchFolder folder;
  const std::string chat = write_chats(folder, "a.jsonl", {chat_of({"q", "a"})});
  const std::string pair =
      write_chats(folder, "b.jsonl", {{{"prompt", "q"}, {"chosen", "a"}, {"rejected", "b"}}});
  const std::string text = write_chats(folder, "c.jsonl", {{{"prompt", "q"}, {"completion", "a"}}});
  CHECK_THAT(chat_error(folder, {{"files", {chat}}, {"train_on", "completion"}}),
             contains_text("`train_on` is \"completion\", which samples in format messages do not "
                           "have; use \"assistant\" or \"last\""));
  CHECK_THAT(chat_error(folder, {{"files", {text}}, {"train_on", "last"}}),
             contains_text("the sample is text without messages"));
  CHECK_THAT(chat_error(folder, {{"files", {chat, pair}}}),
             contains_text("b.jsonl is in format preference, and a.jsonl is in format messages"));
  CHECK_THAT(chat_error(folder, {{"files", {pair}}, {"overlong", "split"}}),
             contains_text("the samples are pairs, which cannot be split"));
  CHECK_THAT(chat_error(folder, {{"files", {"none.jsonl"}}}),
             contains_text("cannot open none.jsonl"));
  CHECK_THAT(
      chat_error(folder, {{"files", {folder.write("a.arrow", "ARROW1").string()}}}),
      contains_text("a.arrow: the dataset reads JSON lines, JSON lists and Parquet (found .arrow); "
                    "convert the file to Parquet"));
  CHECK_THAT(error_of([&] {
               open_chat({{"files", {chat}}}, Json::object(), "odd_tokenizer");
             }),
             contains_text("cannot keep special tokens in messages apart"));
}

}  // namespace tenon
