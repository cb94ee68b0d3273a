// SPDX-License-Identifier: Apache-2.0
#include "host/data/batch_builder.hpp"
#include "host/data/dataset_proxy.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

// A dataset of lines with the tokenizer that it was made with, which must live longer.
struct LinesSource {
  tenon::ComponentInstance tokenizer;
  tenon::DatasetProxy source;

  int64_t size() { return source.size(nullptr); }
  tenon::Batch read(const std::vector<int64_t>& indices) {
    tenon::BatchBuilder builder(source, static_cast<int64_t>(indices.size()));
    source.read(nullptr, indices, builder.writer());
    return builder.finish();
  }
  std::vector<int32_t> lengths() {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < size(); ++i) {
      indices.push_back(i);
    }
    std::vector<int32_t> out(indices.size());
    source.lengths(nullptr, indices, out);
    return out;
  }
};

LinesSource open_lines(const std::string& path,
                       nlohmann::json options = nlohmann::json::object(),
                       const std::string& tokenizer = "byte",
                       const std::string& tokenizer_options = "{}") {
  options["path"] = path;
  tenon::ComponentInstance made = tenon::make_component("tokenizer", tokenizer, tokenizer_options);
  auto lines = tenon::make_component("dataset", "lines", options.dump(), {{"/tokenizer", &made}});
  return {std::move(made), tenon::DatasetProxy(std::move(lines))};
}

// The inputs of a sample as text, and its labels.
std::string inputs_of(LinesSource& lines, int64_t sample) {
  const tenon::Batch batch = lines.read({sample});
  std::string text;
  const at::Tensor ids = *batch.find("input_ids");
  const at::Tensor labels = *batch.find("labels");
  for (int64_t t = 0; t < ids.size(1); ++t) {
    text += static_cast<char>(ids[0][t].item<int64_t>());
    if (t + 1 < ids.size(1)) {
      CHECK(labels[0][t].item<int64_t>() == ids[0][t + 1].item<int64_t>());
    }
  }
  return text + "|" + static_cast<char>(labels[0][-1].item<int64_t>());
}

}  // namespace

TEST_CASE("each line is a sample that ends with its line break", "[plugins]") {
  const tenon::ScratchFolder folder;
  LinesSource lines = open_lines(folder.write("a.txt", "one\n\ntwenty\r\n\r\nx\n\n\nend").string());
  REQUIRE(lines.size() == 4);
  CHECK(inputs_of(lines, 0) == "one|\n");
  CHECK(inputs_of(lines, 1) == "twenty\r|\n");
  CHECK(inputs_of(lines, 2) == "x|\n");
  CHECK(inputs_of(lines, 3) == "en|d");
  CHECK(lines.lengths() == std::vector<int32_t>{3, 7, 1, 2});
}

TEST_CASE("a paragraph has the lines between empty ones", "[plugins]") {
  const tenon::ScratchFolder folder;
  LinesSource lines = open_lines(folder.write("a.txt", "\none\ntwo\n\n\nthree\n").string(),
                                 {{"unit", "paragraph"}});
  REQUIRE(lines.size() == 2);
  CHECK(inputs_of(lines, 0) == "one\ntwo|\n");
  CHECK(inputs_of(lines, 1) == "three|\n");
}

TEST_CASE("the place of a sample is the line on which it begins", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string file = folder.write("a.txt", "\none\ntwo\r\n\n\nthree\nx\n").string();
  const auto places = [&](const std::string& unit) {
    LinesSource lines = open_lines(file, {{"unit", unit}});
    std::vector<std::string> all;
    for (int64_t i = 0; i < lines.size(); ++i) {
      all.push_back(lines.source.place_of(nullptr, i));
    }
    CHECK(lines.source.place_of(nullptr, lines.size()).empty());
    return all;
  };
  const auto at = [&](int line) { return file + ", line " + std::to_string(line); };
  CHECK(places("line") == std::vector<std::string>{at(2), at(3), at(6), at(7)});
  CHECK(places("paragraph") == std::vector<std::string>{at(2), at(6)});
}

TEST_CASE("lines of a batch are padded, and their lengths are set", "[plugins]") {
  const tenon::ScratchFolder folder;
  LinesSource lines = open_lines(folder.write("a.txt", "abc\na\nabcdef\n").string());
  const tenon::Batch batch = lines.read({1, 0});
  CHECK(batch.tokens == 4);
  CHECK(at::equal(batch.lengths, at::tensor({1, 3}, at::kLong)));
  CHECK(at::equal(*batch.find("input_ids"),
                  at::tensor({97, 0, 0, 97, 98, 99}, at::kLong).view({2, 3})));
  CHECK(at::equal(*batch.find("labels"),
                  at::tensor({10, -100, -100, 98, 99, 10}, at::kLong).view({2, 3})));
}

TEST_CASE("parts of the lines share none and leave none out", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string file = folder.write("a.txt", "a1\nb2\nc3\nd4\ne5\nf6\ng7\n").string();
  std::string all;
  for (const auto& [from, to] : {std::pair(0.0, 0.3), {0.3, 0.9}, {0.9, 1.0}}) {
    LinesSource lines = open_lines(file, {{"from", from}, {"to", to}});
    for (int64_t i = 0; i < lines.size(); ++i) {
      all += inputs_of(lines, i).substr(0, 1);
    }
  }
  CHECK(all == "abcdefg");
}

TEST_CASE("a file without lines is refused", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string file = folder.write("a.txt", "\n\nx").string();
  CHECK_THAT(tenon::error_of([&] { open_lines(file); }),
             tenon::contains_text("has 0 samples of at least two tokens"));
}

TEST_CASE("labels of lines have the bytes up to the next token of their line", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string tokenizer = folder
                                    .write("tokenizer.json", R"({
    "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u0120": 2, "\u00c3": 3, "\u00a9": 4,
                                       "ab": 5, "\u010a": 6}, "merges": [["a", "b"]]}})")
                                    .string();
  const std::string file = folder.write("a.txt", "ab \xc3\xa9 ab\nb ab").string();
  const nlohmann::json options = {{"label_bytes", true}};
  LinesSource lines = open_lines(file, options, "hf", nlohmann::json{{"file", tokenizer}}.dump());
  REQUIRE(lines.size() == 2);
  const tenon::Batch batch = lines.read({0, 1});
  const auto row = [&](const char* field, int64_t i) {
    const at::Tensor one = (*batch.find(field))[i].contiguous();
    return std::vector<int64_t>(one.const_data_ptr<int64_t>(),
                                one.const_data_ptr<int64_t>() + one.numel());
  };
  CHECK(row("labels", 0) == std::vector<int64_t>{2, 3, 4, 2, 5, 6});
  CHECK(row("label_bytes", 0) == std::vector<int64_t>{1, 0, 2, 1, 2, 1});
  CHECK(row("labels", 1) == std::vector<int64_t>{2, 5, -100, -100, -100, -100});
  CHECK(row("label_bytes", 1) == std::vector<int64_t>{1, 2, 0, 0, 0, 0});
  LinesSource bytes = open_lines(file, options);
  CHECK(bytes.read({0}).find("label_bytes")->sum().item<int64_t>() == 8);  // of 9 bytes
  CHECK(open_lines(file).read({0}).find("label_bytes") == nullptr);
  CHECK_THAT(tenon::error_of([&] { open_lines(file, options, "odd_tokenizer"); }),
             tenon::contains_text("does not give the byte ranges that `label_bytes` needs"));
}

TEST_CASE("datasets of text refuse JSON, compressed files and UTF-16", "[plugins]") {
  const tenon::ScratchFolder folder;
  const auto error =
      [&](const std::string& type, const std::string& name, const std::string& text) {
        const std::string path = folder.write(name, text).string();
        tenon::ComponentInstance made = tenon::make_component("tokenizer", "byte", "{}");
        const nlohmann::json options = {{"path", path}};
        return tenon::error_of([&] {
          tenon::DatasetProxy(
              tenon::make_component("dataset", type, options.dump(), {{"/tokenizer", &made}}));
        });
      };
  for (const std::string type : {"lines", "text"}) {
    CAPTURE(type);
    CHECK_THAT(
        error(type, "a.jsonl", "{\"text\": \"a\"}\n"),
        tenon::contains_text("a.jsonl is JSON, and the braces and keys would be trained on"));
    CHECK_THAT(error(type, "a.txt", "\x1f\x8b\x08"),
               tenon::contains_text("a.txt is compressed by gzip; decompress it"));
    CHECK_THAT(error(type, "a.txt", "\xff\xfe"), tenon::contains_text("is in UTF-16"));
  }
}

TEST_CASE("special tokens in a text file are an error until an option says what they are",
          "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string path = folder.write("a.txt", "one<eos>two<b>\n").string();
  const std::string special = R"({"specials": ["<eos>"], "eos": "<eos>"})";
  CHECK_THAT(tenon::error_of([&] { open_lines(path, {}, "special_bytes", special); }),
             tenon::contains_text("a.txt: special token at byte 3, in \"<eos>two<b>\", and "
                                  "`special_tokens` does not say what it is"));
  LinesSource tokens =
      open_lines(path, {{"special_tokens", "recognize"}}, "special_bytes", special);
  CHECK(tokens.lengths() == std::vector<int32_t>{3 + 1 + 7 - 1});
  LinesSource letters = open_lines(path, {{"special_tokens", "text"}}, "special_bytes", special);
  CHECK(letters.lengths() == std::vector<int32_t>{15 - 1});
}
