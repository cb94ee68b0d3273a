// SPDX-License-Identifier: Apache-2.0
#include "host/data/batch_builder.hpp"
#include "host/data/dataset_proxy.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

// A text dataset with the tokenizer that it was made with, which must live longer.
struct TextSource {
  tenon::ComponentInstance tokenizer;
  tenon::DatasetProxy source;

  int64_t size() { return source.size(nullptr); }
  tenon::Batch read(const std::vector<int64_t>& indices) {
    tenon::BatchBuilder builder(source, static_cast<int64_t>(indices.size()));
    source.read(nullptr, indices, builder.writer());
    return builder.finish();
  }
};

TextSource open_text(const std::string& path,
                     nlohmann::json options = nlohmann::json::object(),
                     const std::string& tokenizer = "byte",
                     const std::string& tokenizer_options = "{}") {
  options["path"] = path;
  tenon::ComponentInstance made = tenon::make_component("tokenizer", tokenizer, tokenizer_options);
  auto text = tenon::make_component("dataset", "text", options.dump(), {{"/tokenizer", &made}});
  return {std::move(made), tenon::DatasetProxy(std::move(text))};
}

// "0123456789", and so on: the byte at place i is '0' + i % 10.
std::string digits(size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) {
    text += static_cast<char>('0' + i % 10);
  }
  return text;
}

std::vector<int64_t> row(const at::Tensor& tensor, int64_t i) {
  const at::Tensor one = tensor[i].contiguous();
  return {one.const_data_ptr<int64_t>(), one.const_data_ptr<int64_t>() + one.numel()};
}

std::string error_of_text(const std::string& path, const nlohmann::json& options) {
  return tenon::error_of([&] { open_text(path, options); });
}

}  // namespace

TEST_CASE("a sample of text is a piece of it, and its labels are the next tokens", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string file = folder.write("a.txt", "In the beginning God").string();
  TextSource text = open_text(file, {{"sequence_length", 6}});
  REQUIRE(text.size() == 3);  // 20 bytes: 0..6, 6..12, 12..18, each with one byte more
  const tenon::Batch batch = text.read({2, 0});
  CHECK(batch.samples == 2);
  CHECK(batch.tokens == 12);
  REQUIRE(batch.find("input_ids")->sizes() == at::IntArrayRef({2, 6}));
  CHECK(row(*batch.find("input_ids"), 0) == std::vector<int64_t>{'n', 'i', 'n', 'g', ' ', 'G'});
  CHECK(row(*batch.find("labels"), 0) == std::vector<int64_t>{'i', 'n', 'g', ' ', 'G', 'o'});
  CHECK(row(*batch.find("input_ids"), 1) == std::vector<int64_t>{'I', 'n', ' ', 't', 'h', 'e'});
  CHECK(row(*batch.find("labels"), 1) == std::vector<int64_t>{'n', ' ', 't', 'h', 'e', ' '});
}

TEST_CASE("the number of samples of text leaves out what does not fill one", "[plugins]") {
  const tenon::ScratchFolder folder;
  const auto size_of = [&](size_t bytes, int64_t length, nlohmann::json stride) {
    const std::string file = folder.write("a.txt", digits(bytes)).string();
    return open_text(file, {{"sequence_length", length}, {"stride", stride}}).size();
  };
  CHECK(size_of(9, 8, nullptr) == 1);
  CHECK(size_of(16, 8, nullptr) == 1);
  CHECK(size_of(17, 8, nullptr) == 2);
  CHECK(size_of(17, 8, 4) == 3);
  CHECK(size_of(17, 8, 1) == 9);
  CHECK(size_of(17, 8, 100) == 1);
  CHECK(size_of(2, 1, 1) == 1);
}

TEST_CASE("samples of text overlap or leave gaps as the stride says", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string file = folder.write("a.txt", digits(30)).string();
  TextSource text = open_text(file, {{"sequence_length", 4}, {"stride", 3}});
  const tenon::Batch batch = text.read({0, 1, 8});
  CHECK(row(*batch.find("input_ids"), 0) == std::vector<int64_t>{'0', '1', '2', '3'});
  CHECK(row(*batch.find("input_ids"), 1) == std::vector<int64_t>{'3', '4', '5', '6'});
  CHECK(row(*batch.find("labels"), 2) == std::vector<int64_t>{'5', '6', '7', '8'});
}

TEST_CASE("two parts of a text that meet share no token and leave none out", "[plugins]") {
  const tenon::ScratchFolder folder;
  for (const size_t bytes : {95, 100, 101, 1003}) {
    CAPTURE(bytes);
    const std::string file = folder.write("a.txt", digits(bytes)).string();
    const auto tokens = [&](double from, double to) {
      TextSource text =
          open_text(file, {{"from", from}, {"to", to}, {"sequence_length", 1}, {"stride", 1}});
      std::vector<int64_t> ids;
      for (int64_t i = 0; i < text.size(); ++i) {
        ids.push_back(row(*text.read({i}).find("input_ids"), 0)[0]);
        if (i + 1 == text.size()) {
          ids.push_back(row(*text.read({i}).find("labels"), 0)[0]);
        }
      }
      return ids;
    };
    std::vector<int64_t> both = tokens(0.0, 0.9);
    CHECK(both.size() == bytes * 9 / 10);
    const std::vector<int64_t> second = tokens(0.9, 1.0);
    both.insert(both.end(), second.begin(), second.end());
    CHECK(both == tokens(0.0, 1.0));
    CHECK(both.size() == bytes);
  }
}

TEST_CASE("text is read the same from the file and from memory", "[plugins]") {
  const tenon::ScratchFolder folder;
  SECTION("words, which must be tokenized from the start") {
    const std::string file = folder.write("a.txt", "a bb ccc dddd eeeee f gg hhh").string();
    TextSource text = open_text(file, {{"sequence_length", 3}, {"stride", 2}}, "odd_tokenizer");
    REQUIRE(text.size() == 3);  // 8 words
    const tenon::Batch batch = text.read({1, 2});
    CHECK(row(*batch.find("input_ids"), 0) == std::vector<int64_t>{4, 5, 6});
    CHECK(row(*batch.find("labels"), 0) == std::vector<int64_t>{5, 6, 2});
    CHECK(row(*batch.find("input_ids"), 1) == std::vector<int64_t>{6, 2, 3});
    CHECK(row(*batch.find("labels"), 1) == std::vector<int64_t>{2, 3, 3});
  }
  SECTION("tokens of three bytes, of which the last may be cut off") {
    const std::string file = folder.write("a.txt", "aaabbbcccdddeeefff??").string();
    TextSource text =
        open_text(file, {{"sequence_length", 2}}, "odd_tokenizer", R"({"bytes_per_token": 3})");
    REQUIRE(text.size() == 2);  // 6 tokens
    const tenon::Batch batch = text.read({1});
    CHECK(row(*batch.find("input_ids"), 0) == std::vector<int64_t>{3 * 'c', 3 * 'd'});
    CHECK(row(*batch.find("labels"), 0) == std::vector<int64_t>{3 * 'd', 3 * 'e'});
  }
}

TEST_CASE("labels of text have the bytes up to the next token", "[plugins]") {
  const tenon::ScratchFolder folder;
  const nlohmann::json options = {{"sequence_length", 5}, {"label_bytes", true}};
  SECTION("tokens of parts of characters, which share the bytes of one") {
    const std::string tokenizer = folder
                                      .write("tokenizer.json", R"({
      "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null,
      "decoder": {"type": "ByteLevel"},
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u0120": 2, "\u00c3": 3, "\u00a9": 4,
                                         "ab": 5}, "merges": [["a", "b"]]}})")
                                      .string();
    const std::string file = folder.write("a.txt", "ab \xc3\xa9 ab").string();
    TextSource text = open_text(file, options, "hf", nlohmann::json{{"file", tokenizer}}.dump());
    REQUIRE(text.size() == 1);
    const tenon::Batch batch = text.read({0});
    CHECK(row(*batch.find("labels"), 0) == std::vector<int64_t>{2, 3, 4, 2, 5});
    CHECK(row(*batch.find("label_bytes"), 0) == std::vector<int64_t>{1, 0, 2, 1, 2});
  }
  SECTION("tokens of a byte") {
    const std::string file = folder.write("a.txt", "0123456789").string();
    TextSource text = open_text(file, options);
    CHECK(row(*text.read({0}).find("label_bytes"), 0) == std::vector<int64_t>{1, 1, 1, 1, 1});
  }
  SECTION("a tokenizer without ranges") {
    const std::string file = folder.write("a.txt", "a bb ccc dddd eeeee f gg hhh").string();
    CHECK_THAT(tenon::error_of([&] { open_text(file, options, "odd_tokenizer"); }),
               tenon::contains_text("does not give the byte ranges that `label_bytes` needs"));
  }
}

TEST_CASE("a text that cannot be used says why when it is opened", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string good = folder.write("good.txt", digits(100)).string();
  const std::string empty = folder.write("empty.txt", "").string();
  const std::string missing = (folder.path() / "missing.txt").string();
  CHECK_THAT(error_of_text(missing, {}), tenon::contains_text(missing + ": No such file"));
  CHECK_THAT(error_of_text(empty, {}), tenon::contains_text(empty + " is empty"));
  CHECK_THAT(error_of_text(folder.path().string(), {}),
             tenon::contains_text(folder.path().string() + " is a folder, not a regular file"));
  const std::string fifo = (folder.path() / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_THAT(error_of_text(fifo, {}),
             tenon::contains_text(fifo + " is a FIFO, not a regular file"));
  CHECK_THAT(error_of_text("/dev/zero", {}), tenon::contains_text("/dev/zero is a device, not"));
  CHECK_THAT(error_of_text(good, {{"sequence_length", 100}}),
             tenon::contains_text("has 100 tokens between fractions 0 and 1, but a sample needs "
                                  "101"));
  CHECK_THAT(error_of_text(good, {{"sequence_length", 10}, {"from", 0.9}}),
             tenon::contains_text("has 10 tokens between fractions 0.9 and 1"));
  CHECK_THAT(error_of_text(good, {{"from", 0.9}, {"to", 0.5}}),
             tenon::contains_text("`from` (0.9) must be less than `to` (0.5)"));
  CHECK_THAT(error_of_text(good, {{"from", 0.5}, {"to", 0.5}}),
             tenon::contains_text("must be less than"));
}

TEST_CASE("options of text have limits, and the path must be given", "[plugins]") {
  const auto problem = [](const std::string& options) {
    return tenon::options_problem("dataset", "text", options);
  };
  CHECK(problem(R"({"path": "a"})").empty());
  CHECK_THAT(problem("{}"), tenon::contains_text("path"));
  CHECK_FALSE(problem(R"({"path": "a", "sequence_length": 0})").empty());
  CHECK_FALSE(problem(R"({"path": "a", "stride": 0})").empty());
  CHECK_FALSE(problem(R"({"path": "a", "to": 1.1})").empty());
  CHECK_FALSE(problem(R"({"path": "a", "seq_length": 4})").empty());
}

TEST_CASE("a sample of text that is not there is an error", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string file = folder.write("a.txt", digits(100)).string();
  TextSource text = open_text(file, {{"sequence_length", 10}});
  REQUIRE(text.size() == 9);
  CHECK_THAT(tenon::error_of([&] { text.read({9}); }),
             tenon::contains_text("sample 9 is out of range [0, 9)"));
  CHECK_THAT(tenon::error_of([&] { text.read({0, -1}); }), tenon::contains_text("sample -1"));
}

TEST_CASE("a text that changes while it is read is an error that names file and offset",
          "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string file = folder.write("a.txt", digits(100)).string();
  TextSource text = open_text(file, {{"sequence_length", 10}});
  text.read({8});
  SECTION("it got shorter") {
    std::filesystem::resize_file(file, 85);
    CHECK_THAT(tenon::error_of([&] { text.read({8}); }),
               tenon::contains_text(file + " ends at offset 85 (expected 100 bytes"));
  }
  SECTION("it got longer") {
    std::filesystem::resize_file(file, 120);
    CHECK_THAT(tenon::error_of([&] { text.read({3}); }),
               tenon::contains_text(file + " was changed after the run opened it (read at offset "
                                           "30; 100 bytes then, 120 now)"));
  }
  SECTION("it was written to, and is as long as before") {
    std::filesystem::last_write_time(
        file, std::filesystem::last_write_time(file) + std::chrono::seconds(1));
    CHECK_THAT(tenon::error_of([&] { text.read({3}); }), tenon::contains_text("was changed"));
  }
  SECTION("another file took its name, which does not matter to one that is open") {
    const std::string other = folder.write("b.txt", "other").string();
    std::filesystem::rename(other, file);
    CHECK(row(*text.read({1}).find("input_ids"), 0)[0] == '0');
  }
}

TEST_CASE("text is read by several threads at once", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string file = folder.write("a.txt", digits(5001)).string();
  TextSource text = open_text(file, {{"sequence_length", 7}, {"stride", 1}});
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = static_cast<int64_t>(t); i < text.size(); i += 4) {
        const tenon::Batch batch = text.read({i});
        wrong[t] += row(*batch.find("input_ids"), 0)[6] != '0' + (i + 6) % 10 ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == std::vector<int>(4, 0));
}
