// SPDX-License-Identifier: Apache-2.0
//
// Chats of Parquet files, written by pyarrow (tests/parity/chats_of_pyarrow.py), against JSON lines
// with the same samples.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/plugins/opened_chat.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Shows roles, tools, calls and variables, so that rows differ if any of them does.
const std::string kShowsAll =
    "{{ tools | tojson if tools else '' }}{{ style }}{{ level }}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{{ m.tool_calls | tojson if m.tool_calls else '' }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

fs::path of_pyarrow(const std::string& name) {
  return source_dir() / "tests/parity/chats_of_pyarrow" / name;
}

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The samples of a file in one batch, field by field.
std::vector<at::Tensor> fields_of(const std::string& file, const Json& options = Json::object()) {
  Json all = options;
  all["files"] = {file};
  all["ignore"] = {"id", "when"};
  OpenedChat chat = open_chat(all, chat_tokenizer(kShowsAll));
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < chat.size(); ++i) {
    indices.push_back(i);
  }
  const Batch batch = chat.read(indices);
  std::vector<at::Tensor> fields;
  for (const char* const name :
       {"input_ids", "labels", "label_bytes", "position_ids", "segment_ids"}) {
    if (const at::Tensor* const field = batch.find(name)) {
      fields.push_back(field->clone());
    }
  }
  return fields;
}

void check_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(at::equal(a[i], b[i]));
  }
}

// What a shard holds after its header: rows, tokens, and bytes of tokens if it has them.
std::string shard_content(const fs::path& cache) {
  for (const auto& entry : fs::recursive_directory_iterator(cache)) {
    if (entry.path().filename() == "shard-00000.bin") {
      const std::string bytes = content_of(entry.path());
      uint64_t sizes[3];  // rows, tokens, bytes of counts
      REQUIRE(bytes.size() > 24 + sizeof(sizes));
      std::memcpy(sizes, bytes.data() + 24, sizeof(sizes));
      const size_t begin = 24 + sizeof(sizes) + sizes[2];
      return bytes.substr(0, 8) + bytes.substr(begin, bytes.size() - begin - sizeof(uint64_t));
    }
  }
  return {};
}

std::string parquet_error(const std::string& name, Json options = Json::object()) {
  const ScratchFolder folder;
  fs::copy(of_pyarrow(name), folder.path() / name);
  options["files"] = {(folder.path() / name).string()};
  return chat_error(folder, options);
}

}  // namespace

TEST_CASE("rows of Parquet files equal those of JSON lines", "[chat]") {
  for (const std::string name : {"messages", "sharegpt", "alpaca", "completion", "preference"}) {
    CAPTURE(name);
    const std::vector<Json> cases = {
        {{"label_bytes", true}}, {{"train_on", "all"}}, {{"max_length", 40}, {"overlong", "cut"}}};
    for (const Json& options : cases) {
      CAPTURE(options.dump());
      const std::vector<at::Tensor> rows = fields_of(of_pyarrow(name + ".jsonl"), options);
      CHECK(rows[0].numel() > 0);
      check_equal(fields_of(of_pyarrow(name + ".parquet"), options), rows);
    }
  }
}

TEST_CASE("shards of Parquet files equal those of JSON lines, and are read again", "[chat]") {
  const ScratchFolder folder;
  const auto options = [&](const std::string& cache) {
    return Json{{"cache", (folder.path() / cache).string()}, {"label_bytes", true}};
  };
  const auto rows = fields_of(of_pyarrow("messages.parquet"), options("a"));
  fields_of(of_pyarrow("messages.jsonl"), options("b"));
  const std::string content = shard_content(folder.path() / "a");
  CHECK(content.size() > 100);
  CHECK(content == shard_content(folder.path() / "b"));
  check_equal(fields_of(of_pyarrow("messages.parquet"), options("a")), rows);
  // Other bytes of a file have another folder.
  const fs::path copy = folder.path() / "copy.parquet";
  fs::copy(of_pyarrow("messages.parquet"), copy);
  fields_of(copy, options("a"));
  const auto num_folders = [&] {
    return std::count_if(fs::directory_iterator(folder.path() / "a"),
                         fs::directory_iterator(),
                         [](const auto& entry) { return entry.is_directory(); });
  };
  CHECK(num_folders() == 1);
  fs::copy(of_pyarrow("preference.parquet"), copy, fs::copy_options::overwrite_existing);
  fields_of(copy, options("a"));
  CHECK(num_folders() == 2);
}

TEST_CASE("Parquet and JSON files can be mixed", "[chat]") {
  const Json files = {of_pyarrow("messages.parquet").string(),
                      of_pyarrow("sharegpt.jsonl").string()};
  CHECK(open_chat({{"files", files}, {"ignore", {"id"}}}, chat_tokenizer(kShowsAll)).size() == 7);
}

TEST_CASE("dictionaries, large lists and maps of Parquet are texts, lists and objects", "[chat]") {
  const ScratchFolder folder;
  Json sample = chat_of({"hi", "yo"});
  sample["chat_template_kwargs"] = {{"level", "3"}};
  check_equal(fields_of(of_pyarrow("types.parquet")),
              fields_of(write_chats(folder, "a.jsonl", {sample})));
}

TEST_CASE("a bad row of a Parquet file is named", "[chat]") {
  CHECK(parquet_error("null_messages.parquet")
            .find("null_messages.parquet, row group 1, row 1: the key \"messages\" is missing") !=
        std::string::npos);
  CHECK_THAT(parquet_error("null_message.parquet"),
             contains_text("row group 1, row 0: message 1 of \"messages\" is null, expected an "
                           "object"));
  CHECK_THAT(parquet_error("number_messages.parquet"),
             contains_text("row group 0, row 0: \"messages\" is a number, expected a list"));
  CHECK_THAT(parquet_error("unknown_role.parquet"),
             contains_text("row group 1, row 1: message 1 of \"messages\" has the unknown role "
                           "\"narrator\""));
  CHECK_THAT(parquet_error("not_utf8.parquet"),
             contains_text("row group 0, row 1: \"prompt\": not UTF-8 at byte 1 of a text of 1 "
                           "bytes"));
}

TEST_CASE("a Parquet file without usable columns is named", "[chat]") {
  CHECK_THAT(
      parquet_error("no_column.parquet"),
      contains_text("no_column.parquet, row group 0, row 0: the keys of the sample are those "
                    "of no format (found \"text\", \"id\")"));
  CHECK_THAT(parquet_error("no_column.parquet", {{"format", "messages"}}),
             contains_text("row group 0, row 0: the key \"messages\" is missing"));
  CHECK_THAT(parquet_error("timestamp.parquet"),
             contains_text("timestamp.parquet: the column \"messages\" has the type timestamp[us], "
                           "which has no form in JSON; remove it, or convert it to text"));
  CHECK_THAT(parquet_error("empty.parquet"), contains_text("empty.parquet has no samples"));
}

TEST_CASE("a truncated or corrupt Parquet file is named", "[chat]") {
  const ScratchFolder folder;
  const std::string whole = content_of(of_pyarrow("preference.parquet"));
  const auto error = [&](const std::string& bytes) -> std::string {
    try {
      open_chat({{"files", {folder.write("a.parquet", bytes).string()}}},
                chat_tokenizer(kShowsAll));
    } catch (const Error& problem) {
      return problem.what();
    }
    return "";
  };
  CHECK_THAT(error(""), contains_text("a.parquet: cannot read: "));
  CHECK_THAT(error(whole.substr(0, whole.size() - 1)), contains_text("a.parquet: cannot read: "));
  CHECK_THAT(error(whole.substr(0, whole.size() / 2)), contains_text("a.parquet: cannot read: "));
  // Pages have checksums.
  std::string flipped = whole;
  const size_t in_page = whole.find("assistant");
  REQUIRE(in_page != std::string::npos);
  flipped[in_page] ^= 1;
  CHECK_THAT(error(flipped), contains_text("a.parquet, row group 0: cannot read after row 0: "));
  // Whatever byte is wrong, an error names the file.
  for (size_t at = 0; at < whole.size(); at += 11) {
    CAPTURE(at);
    std::string changed = whole;
    changed[at] ^= static_cast<char>(1 << at % 7);
    const std::string problem = error(changed);
    CHECK((problem.empty() || problem.find("a.parquet") != std::string::npos));
  }
}

TEST_CASE("a Parquet file is not read after it was opened", "[chat]") {
  const ScratchFolder folder;
  const fs::path file = folder.path() / "a.parquet";
  fs::copy(of_pyarrow("messages.parquet"), file);
  OpenedChat chat =
      open_chat({{"files", {file.string()}}, {"ignore", {"id"}}}, chat_tokenizer(kShowsAll));
  fs::remove(file);
  CHECK(chat.size() == 5);
  CHECK(chat.read({0}).samples == 1);
}

}  // namespace tenon
