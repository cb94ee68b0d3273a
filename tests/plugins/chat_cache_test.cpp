// SPDX-License-Identifier: Apache-2.0
//
// The shards that the dataset `chat` keeps its tokens in.
#define XXH_INLINE_ALL
#include "host/log/log.hpp"

#include <ATen/ATen.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <xxhash.h>

#include "tests/plugins/opened_chat.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The folders of data sets in a cache.
std::vector<fs::path> sets_in(const fs::path& cache) {
  std::vector<fs::path> sets;
  for (const auto& entry : fs::directory_iterator(cache)) {
    if (entry.is_directory()) {
      sets.push_back(entry.path());
    }
  }
  return sets;
}

struct CachedChat {
  ScratchFolder folder;
  std::string file = write_chats(folder, "a.jsonl", {chat_of({"q", "a"}), chat_of({"r", "bc"})});
  fs::path cache = folder.path() / "cache";

  Json options() const { return {{"files", {file}}, {"cache", cache.string()}}; }
  fs::path only_set() const {
    const std::vector<fs::path> sets = sets_in(cache);
    REQUIRE(sets.size() == 1);
    return sets[0];
  }
};

void flip_byte(const fs::path& file, std::streamoff at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(at);
  const int byte = stream.get();
  stream.seekp(at);
  stream.put(static_cast<char>(byte ^ 1));
}

// Replaces the rows of the only shard by those with these tokens, with the right checksum. The high
// bit marks a label.
void write_rows(const CachedChat& chat, const std::vector<std::vector<uint32_t>>& rows) {
  const fs::path file = chat.only_set() / "shard-00000.bin";
  std::string bytes = file_text(file);
  constexpr size_t kHeader = 48;
  constexpr size_t kNumRows = 24;  // offset of the numbers of rows and tokens in the header
  uint64_t bytes_of_counts = 0;
  std::memcpy(&bytes_of_counts, bytes.data() + 40, sizeof(bytes_of_counts));
  bytes.resize(kHeader + bytes_of_counts);
  const auto append = [&bytes](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  uint64_t numbers[2] = {rows.size(), 0};
  for (const auto& row : rows) {
    numbers[1] += row.size();
    append(numbers[1]);
  }
  for (const auto& row : rows) {
    for (const uint32_t token : row) {
      append(token);
    }
  }
  std::memcpy(bytes.data() + kNumRows, numbers, sizeof(numbers));
  append(XXH3_64bits(bytes.data(), bytes.size()));
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace

TEST_CASE("a shard whose rows are impossible is refused, whatever its checksum says", "[chat]") {
  constexpr uint32_t kLabel = uint32_t{1} << 31;
  const std::vector<uint32_t> good = {1, 2 | kLabel};
  const CachedChat chat;
  open_chat(chat.options());
  write_rows(chat, {good, {3, 4 | kLabel, 5 | kLabel}});
  CHECK(open_chat(chat.options()).size() == 2);
  const std::pair<std::vector<uint32_t>, const char*> cases[] = {
      {{}, "row 1 has 0 tokens (expected at least 2)"},
      {{1 | kLabel}, "row 1 has 1 tokens (expected at least 2)"},
      {{1 | kLabel, 2}, "row 1 has no label"},
      {{1, 1000000 | kLabel}, "it has the id 1000000 (expected ids below "}};
  for (const auto& [row, why] : cases) {
    write_rows(chat, {good, row});
    CHECK_THROWS_WITH(open_chat(chat.options()),
                      contains_text("chat.bad_shard") && contains_text(why));
  }
}

TEST_CASE("encoded chats are kept in a folder and read from there", "[chat]") {
  const CachedChat chat;
  {
    OpenedChat opened = open_chat(chat.options());
    CHECK(opened.shown(1) == "<u>r</><a>bc\n...bc</>");
  }
  const fs::path set = chat.only_set();
  CHECK(set.extension().empty());
  CHECK(fs::exists(set / "shard-00000.bin"));
  const auto written = fs::last_write_time(set / "shard-00000.bin");
  OpenedChat again = open_chat(chat.options());
  CHECK(again.size() == 2);
  CHECK(again.shown(0) == "<u>q</><a>a\n...a</>");
  CHECK(fs::last_write_time(set / "shard-00000.bin") == written);
}

TEST_CASE("other data, options, templates and tokenizers have other folders", "[chat]") {
  const CachedChat chat;
  open_chat(chat.options());
  Json options = chat.options();
  options["train_on"] = "all";
  open_chat(options);
  CHECK(sets_in(chat.cache).size() == 2);
  open_chat(chat.options(), chat_tokenizer(std::string(kChatTurns) + "{# #}"));
  CHECK(sets_in(chat.cache).size() == 3);
  Json other = chat_tokenizer();
  other["specials"].push_back("<x>");
  open_chat(chat.options(), other);
  CHECK(sets_in(chat.cache).size() == 4);
  write_chats(chat.folder, "a.jsonl", {chat_of({"q", "z"})});
  CHECK(open_chat(chat.options()).shown(0) == "<u>q</><a>z\n...z</>");
  CHECK(sets_in(chat.cache).size() == 5);
}

TEST_CASE("a corrupt shard is an error that names it", "[chat]") {
  const CachedChat chat;
  open_chat(chat.options());
  const fs::path shard = chat.only_set() / "shard-00000.bin";
  const auto size = static_cast<std::streamoff>(fs::file_size(shard));
  const std::string start =
      "cache/" + chat.only_set().filename().string() + "/shard-00000.bin is invalid: ";
  for (const std::streamoff at : {std::streamoff{0}, std::streamoff{40}, size / 2, size - 1}) {
    flip_byte(shard, at);
    CHECK_THAT(chat_error(chat.folder, chat.options()), contains_text(start));
    flip_byte(shard, at);
  }
  CHECK(open_chat(chat.options()).size() == 2);
  for (const auto n : {size - 1, size / 2, std::streamoff{10}, std::streamoff{0}}) {
    fs::resize_file(shard, static_cast<uintmax_t>(n));
    CHECK_THAT(chat_error(chat.folder, chat.options()), contains_text("truncated"));
  }
  fs::remove(shard);
  CHECK_THAT(chat_error(chat.folder, chat.options()), contains_text("cannot open cache/"));
}

TEST_CASE("a shard of another data set is an error", "[chat]") {
  const CachedChat chat;
  open_chat(chat.options());
  const fs::path shard = chat.only_set() / "shard-00000.bin";
  const fs::path kept = chat.folder.path() / "kept.bin";
  fs::rename(shard, kept);
  fs::remove_all(chat.cache);
  Json other = chat_tokenizer();
  other["specials"].push_back("<x>");
  open_chat(chat.options(), other);
  fs::rename(kept, chat.only_set() / "shard-00000.bin");
  CHECK_THAT(error_of([&] { open_chat(chat.options(), other); }),
             contains_text("it was made from other data, or with another template, tokenizer or "
                           "options; remove the folder "));
}

TEST_CASE("an interrupted build continues, and corrupt shards are made again", "[chat]") {
  const CachedChat chat;
  // Two files are two shards.
  const std::string second = write_chats(chat.folder, "b.jsonl", {chat_of({"s", "d"})});
  Json options = chat.options();
  options["files"].push_back(second);
  open_chat(options);
  const fs::path set = chat.only_set();
  const fs::path building = set.string() + ".incomplete";
  fs::rename(set, building);
  fs::remove(building / "shard-00001.bin");
  const auto written = fs::last_write_time(building / "shard-00000.bin");
  CHECK(open_chat(options).size() == 3);
  CHECK(fs::last_write_time(set / "shard-00000.bin") == written);
  CHECK_FALSE(fs::exists(building));

  fs::rename(set, building);
  flip_byte(building / "shard-00000.bin", 60);
  OpenedChat again = open_chat(options);
  CHECK(again.shown(0) == "<u>q</><a>a\n...a</>");
  CHECK(again.shown(2) == "<u>s</><a>d\n...d</>");
}

TEST_CASE("processes that open the same chats at once build them once", "[chat]") {
  const CachedChat chat;
  (void)make_component("tokenizer", "byte");  // before the processes, what is loaded once
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      int result = 1;
      try {
        OpenedChat opened = open_chat(chat.options());
        result = opened.size() == 2 && opened.shown(1) == "<u>r</><a>bc\n...bc</>" ? 0 : 2;
      } catch (...) {
      }
      _exit(result);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  CHECK(fs::exists(chat.only_set() / "shard-00000.bin"));
}

TEST_CASE("a cache folder that cannot be written is an error", "[chat]") {
  CachedChat chat;
  chat.cache = chat.folder.write("a file", "");
  CHECK_THAT(chat_error(chat.folder, chat.options()),
             contains_text("cannot create the folder a file"));
  Json options = chat.options();
  options["cache"] = "/dev/null/x";
  CHECK_THAT(
      chat_error(chat.folder, options),
      contains_text("set `cache` to a folder that can be written, or to \"\" to keep tokens in "
                    "memory"));
}

TEST_CASE("a shard that changes while it is read is an error", "[chat]") {
  const CachedChat chat;
  OpenedChat opened = open_chat(chat.options());
  fs::resize_file(chat.only_set() / "shard-00000.bin", 8);
  CHECK_THAT(error_of([&] { opened.read({0}); }), contains_text("shard-00000.bin"));
}

}  // namespace tenon
