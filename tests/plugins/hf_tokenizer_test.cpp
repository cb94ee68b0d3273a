// SPDX-License-Identifier: Apache-2.0
//
// The tokenizer of tokenizer.json files against the answers of the package `tokenizers`, which
// tests/parity/tokenizers_golden.py wrote, and what it says of bad files.
#include "plugins/tokenizers/hf/hf_tokenizer.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/tokenizers/engine/json_node.hpp"
#include "plugins/tokenizers/engine/regex.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

struct Collected {
  std::vector<int32_t> ids;
  std::vector<uint64_t> ranges;
};

class Collector : public TokenReceiver {
 public:
  explicit Collector(Collected& out) : out_(out) {}
  void receive(const int32_t* ids, const ByteRange* ranges, size_t n) override {
    out_.ids.insert(out_.ids.end(), ids, ids + n);
    for (size_t i = 0; ranges != nullptr && i < n; ++i) {
      out_.ranges.push_back(ranges[i].begin);
      out_.ranges.push_back(ranges[i].end);
    }
  }

 private:
  Collected& out_;
};

const nlohmann::json& golden() {
  static const nlohmann::json file = nlohmann::json::parse(
      file_text((source_dir() / "tests/parity/tokenizers_golden.json").string()));
  return file;
}

nlohmann::json tokenizer_of(const nlohmann::json& golden_case) {
  nlohmann::json tokenizer = golden_case["tokenizer"];
  if (tokenizer["model"].is_string()) {
    tokenizer["model"] = golden()["models"][tokenizer["model"].get<std::string>()];
  }
  return tokenizer;
}

nlohmann::json tokenizer_named(const std::string& name) {
  for (const nlohmann::json& one : golden()["cases"]) {
    if (one["name"] == name) {
      return tokenizer_of(one);
    }
  }
  FAIL("no tokenizer " << name);
  return {};
}

Collected encode(const HfTokenizer& tokenizer,
                 const std::string& text,
                 const TemplateRanges& templates,
                 Around around = Around::kNo) {
  Collected out;
  Collector collector(out);
  tokenizer.encode(text, templates, around, WithRanges::kYes, collector);
  return out;
}

// What the error of a file or a text says; "" if there is none.
template <class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::string problem_of(const nlohmann::json& json) {
  return message_of([&] { const HfTokenizer made(json.dump(), "tokenizer.json"); });
}

}  // namespace

TEST_CASE("ids, ranges and decoded texts are those of tokenizers", "[plugins][tokenizers]") {
  size_t num_texts = 0;
  for (const nlohmann::json& one : golden()["cases"]) {
    CAPTURE(one["name"]);
    const HfTokenizer tokenizer(tokenizer_of(one).dump(), "tokenizer.json");
    for (size_t i = 0; i < one["texts"].size(); ++i) {
      const std::string text = one["texts"][i];
      CAPTURE(i, text);
      const Collected found = encode(tokenizer, text, {{0, text.size()}});
      CHECK(found.ids == one["ids"][i].get<std::vector<int32_t>>());
      CHECK(found.ranges == one["ranges"][i].get<std::vector<uint64_t>>());
      CHECK(tokenizer.decode(found.ids.data(), found.ids.size()) == one["decoded"][i]);
      Collected ids_alone;
      Collector collector(ids_alone);
      tokenizer.encode(text, {{0, text.size()}}, Around::kNo, WithRanges::kNo, collector);
      CHECK(ids_alone.ids == found.ids);
      ++num_texts;
    }
  }
  CHECK(num_texts > 800);
}

TEST_CASE("the short way of byte-level vocabularies gives the tokens of the long one",
          "[plugins][tokenizers]") {
  // A normalizer that changes nothing takes the long way.
  const bool has_all_bytes = GENERATE(true, false);
  for (const std::string name :
       {"byte_bpe gpt2", "byte_bpe llama3, whole words", "byte_bpe o200k", "byte_bpe deepseek"}) {
    CAPTURE(name, has_all_bytes);
    nlohmann::json json = tokenizer_named(name);
    if (!has_all_bytes) {  // of ASCII control characters and of code points from U+1000 on
      for (const std::string byte : {"\u0104", "\u0106", "\u00E1", "\u00E2", "\u00FF"}) {
        nlohmann::json& vocabulary = json["model"]["vocab"];
        vocabulary["instead of " + byte] = vocabulary.at(byte);
        vocabulary.erase(byte);
      }
    }
    const HfTokenizer fast(json.dump(), "tokenizer.json");
    json["normalizer"] = {
        {"type", "Replace"}, {"pattern", {{"String", "\u0001x"}}}, {"content", ""}};
    const HfTokenizer slow(json.dump(), "tokenizer.json");
    std::mt19937 random(7);
    for (int round = 0; round < 60; ++round) {
      std::string text;
      for (int i = 0; i < 200; ++i) {
        const auto pick = random() % 10;
        text += pick < 5   ? std::string(1, static_cast<char>('a' + random() % 26))
                : pick < 7 ? " "
                : pick < 8 ? std::string(1, static_cast<char>(random() % 128))
                           : utf8_of(static_cast<char32_t>(0xA0 + random() % 0x3000));
      }
      const Collected a = encode(fast, text, {});
      const Collected b = encode(slow, text, {});
      REQUIRE(a.ids == b.ids);
      REQUIRE(a.ranges == b.ranges);
    }
  }
}

TEST_CASE("special tokens are recognized in templates alone", "[plugins][tokenizers]") {
  const HfTokenizer tokenizer(tokenizer_named("byte_bpe gpt2").dump(), "tokenizer.json");
  const int32_t end = tokenizer.id_of("</s>");
  REQUIRE(end >= 0);
  const std::string text = "God</s>God</s>";
  const auto count = [&](const TemplateRanges& templates) {
    const std::vector<int32_t> ids = encode(tokenizer, text, templates).ids;
    return std::count(ids.begin(), ids.end(), end);
  };
  CHECK(count({}) == 0);
  CHECK(count({{0, text.size()}}) == 2);
  CHECK(count({{3, 7}}) == 1);
  CHECK(count({{4, 14}}) == 1);  // the first starts in the text before
  CHECK(count({{3, 6}, {10, 14}}) == 1);
  // A border of pieces has no other effect: all is one text.
  CHECK(encode(tokenizer, "beginning", {{0, 4}}).ids == encode(tokenizer, "beginning", {}).ids);
  // An added word that is not special is recognized everywhere.
  const std::vector<int32_t> ids = encode(tokenizer, "xGod", {}).ids;
  CHECK(ids.back() == tokenizer.id_of("God"));
}

TEST_CASE("post-processors put tokens around a text", "[plugins][tokenizers]") {
  nlohmann::json json = tokenizer_named("word_piece");
  const int32_t cls = json["model"]["vocab"]["[CLS]"];
  const int32_t sep = json["model"]["vocab"]["[SEP]"];
  const auto special = [](const std::string& token, int32_t id) {
    return nlohmann::json{{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  };
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
        {{"SpecialToken", {{"id", "[SEP]"}, {"type_id", 0}}}}}},
      {"pair", nlohmann::json::array()},
      {"special_tokens", {{"[CLS]", special("[CLS]", cls)}, {"[SEP]", special("[SEP]", sep)}}}};
  const auto check = [&] {
    const HfTokenizer tokenizer(json.dump(), "tokenizer.json");
    const Collected bare = encode(tokenizer, "the God", {});
    const Collected around = encode(tokenizer, "the God", {}, Around::kYes);
    REQUIRE(around.ids.size() == bare.ids.size() + 2);
    CHECK(around.ids.front() == cls);
    CHECK(around.ids.back() == sep);
    CHECK(around.ranges[0] == 0);
    CHECK(around.ranges[1] == 0);
    CHECK(around.ranges[around.ranges.size() - 2] == 7);
    CHECK(around.ranges.back() == 7);
  };
  check();
  json["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}, {"trim_offsets", true}},
        {{"type", "BertProcessing"}, {"sep", {"[SEP]", sep}}, {"cls", {"[CLS]", cls}}}}}};
  check();
  json["post_processor"]["processors"][1]["sep"][1] = 9999;
  CHECK_THAT(problem_of(json), contains_text("/post_processor adds id 9999 (expected less than"));
}

TEST_CASE("bytes of affixes stand for no text", "[plugins][tokenizers]") {
  nlohmann::json vocabulary = {{"a", 0}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(byte));
    vocabulary[name] = byte + 1;
  }
  const HfTokenizer tokenizer(nlohmann::json{{"model",
                                              {{"type", "BPE"},
                                               {"vocab", vocabulary},
                                               {"merges", nlohmann::json::array()},
                                               {"byte_fallback", true},
                                               {"continuing_subword_prefix", "#"},
                                               {"end_of_word_suffix", "./"}}}}
                                  .dump(),
                              "tokenizer.json");
  const Collected found = encode(tokenizer, "a\xc3\xa4", {});
  CHECK(found.ids == std::vector<int32_t>{0, '#' + 1, 0xc3 + 1, 0xa4 + 1, '.' + 1, '/' + 1});
  CHECK(found.ranges == std::vector<uint64_t>{0, 1, 1, 1, 1, 3, 1, 3, 3, 3, 3, 3});
}

TEST_CASE("long runs of one character take time near their length", "[plugins][tokenizers]") {
  const HfTokenizer tokenizer(tokenizer_named("byte_bpe gpt2").dump(), "tokenizer.json");
  const HfTokenizer metaspace(tokenizer_named("metaspace_bpe").dump(), "tokenizer.json");
  for (const std::string unit : {" ", "a", "\n", "\xe4\xb8\xad", "<", "\xcc\x81"}) {
    std::string text;
    while (text.size() < size_t{1} << 18) {
      text += unit;
    }
    const Collected found = encode(tokenizer, text, {{0, text.size()}});
    CHECK(tokenizer.decode(found.ids.data(), found.ids.size()) == text);
    CHECK(found.ranges.back() == text.size());
    const Collected other = encode(metaspace, text, {});
    CHECK(other.ranges.back() == text.size());
  }
}

TEST_CASE("threads that share a tokenizer get equal tokens", "[plugins][tokenizers]") {
  const HfTokenizer tokenizer(tokenizer_named("byte_bpe llama3, whole words").dump(), "t.json");
  const std::string text = file_text((source_dir() / "README.md").string());
  const std::vector<int32_t> expected = encode(tokenizer, text, {}).ids;
  std::vector<int> equal(4, 0);
  std::vector<std::thread> threads;
  for (int& one : equal) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        one += encode(tokenizer, text, {}).ids == expected ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(equal == std::vector<int>(4, 5));
}

TEST_CASE("text that cannot be encoded is refused with its place", "[plugins][tokenizers]") {
  const HfTokenizer tokenizer(tokenizer_named("byte_bpe gpt2").dump(), "tokenizer.json");
  const auto utf8 = [&](const std::string& text) {
    return message_of([&] { encode(tokenizer, text, {}); });
  };
  CHECK_THAT(utf8("abc\xff"), contains_text("the text is not valid UTF-8 at byte 3"));
  CHECK_THAT(utf8("\xc3\xa9\xed\xa0\x80"), contains_text("not valid UTF-8 at byte 2"));
  CHECK_THAT(utf8("a\xf0\x9f\x98"), contains_text("not valid UTF-8 at byte 1"));
  CHECK_THAT(utf8(std::string("\xc0\x80", 2)), contains_text("not valid UTF-8 at byte 0"));

  nlohmann::json words = tokenizer_named("word_piece");
  words["model"]["unk_token"] = "[NONE]";
  const HfTokenizer no_unknown(words.dump(), "tokenizer.json");
  CHECK_THAT(message_of([&] { encode(no_unknown, "the \xe2\x82\xac", {}); }),
             contains_text("the text cannot be encoded at byte 4: the vocabulary has no token"));

  std::vector<int32_t> ids = {1, 2, -1};
  const auto decode = [&] { return message_of([&] { tokenizer.decode(ids.data(), ids.size()); }); };
  CHECK_THAT(decode(), contains_text("id -1 at position 2 is out of range (expected 0 to"));
  ids[2] = static_cast<int32_t>(tokenizer.vocab_size());
  CHECK_THAT(decode(), contains_text("at position 2 is out of range"));
}

TEST_CASE("a part of a file that is unknown or wrong is named with its place",
          "[plugins][tokenizers]") {
  struct Wrong {
    std::string pointer;
    nlohmann::json value;
    std::string message;
  };
  const std::vector<Wrong> wrongs = {
      {"/normalizer",
       {{"type", "Reverse"}},
       "tokenizer.json: /normalizer/type is \"Reverse\", which is not supported (expected one of "
       "BertNormalizer, ByteLevel"},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "NFX"}}}}},
       "/normalizer/normalizers/0/type is \"NFX\""},
      {"/normalizer", {{"type", "NFC"}, {"fast", true}}, "/normalizer/fast is unknown; remove it"},
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"Regex", "(a"}}}, {"content", ""}},
       "/normalizer/pattern: the pattern (a is no regular expression"},
      {"/normalizer",
       {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA!"}},
       "/normalizer/precompiled_charsmap is not base64"},
      {"/normalizer",
       {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}},
       "is no map of SentencePiece"},
      {"/pre_tokenizer", {{"type", "Words"}}, "/pre_tokenizer/type is \"Words\""},
      {"/pre_tokenizer/add_prefix_space",
       1,
       "/pre_tokenizer/add_prefix_space is number (expected true or false)"},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "ab"}},
       "/pre_tokenizer/replacement is \"ab\" (expected one character)"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Gone"}, {"invert", false}},
       "/pre_tokenizer/behavior is \"Gone\""},
      {"/decoder", {{"type", "Magic"}}, "/decoder/type is \"Magic\""},
      {"/post_processor", {{"type", "Frame"}}, "/post_processor/type is \"Frame\""},
      {"/model", {{"type", "Neural"}}, "/model/type is \"Neural\""},
      {"/model", nullptr, "tokenizer.json: / has no \"model\""},
      {"/model/dropout", 0.1, "/model/dropout is 0.1, which is not supported (expected null)"},
      {"/model/vocab/a", -1, "/model/vocab/a is -1 (expected 0 to"},
      {"/model/vocab/a", 4000000000u, "/model/vocab/a is 4000000000 (expected 0 to"},
      {"/model/vocab/a", "one", "/model/vocab/a is string"},
      {"/model/merges/0", "a", "/model/merges/0 is no merge"},
      {"/model/merges/0", "a \u65e5", "/model/merges/0 merges to or from \"\u65e5\""},
      {"/added_tokens/0/id", 77, "/added_tokens/0/id is 77, but the token"},
      {"/added_tokens/0", {{"id", 0}}, "/added_tokens/0 has no \"content\""},
      {"/version", "2.0", "/version is \"2.0\" (expected \"1.0\")"},
      {"/extra", 1, "/extra is unknown"}};
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.pointer, wrong.value.dump());
    nlohmann::json json = tokenizer_named("byte_bpe gpt2");
    json[nlohmann::json::json_pointer(wrong.pointer)] = wrong.value;
    CHECK_THAT(problem_of(json), contains_text(wrong.message));
  }
  nlohmann::json deep = {{"type", "NFC"}};
  for (int i = 0; i < 100; ++i) {
    deep = {{"type", "Sequence"}, {"normalizers", {deep}}};
  }
  nlohmann::json json = tokenizer_named("byte_bpe gpt2");
  json["normalizer"] = deep;
  CHECK_THAT(problem_of(json), contains_text("is nested too deeply"));
  CHECK_THAT(message_of([] { const HfTokenizer made("{\"model\": ", "tokenizer.json"); }),
             contains_text("tokenizer.json is not JSON"));
}

TEST_CASE("files that grow a text, a pattern or a template without bound are refused",
          "[plugins][tokenizers]") {
  const nlohmann::json base = tokenizer_of(golden()["cases"][0]);
  const auto with = [&](const char* part, const nlohmann::json& value) {
    nlohmann::json changed = base;
    changed[part] = value;
    return changed;
  };
  const auto sequence_of =
      [](const char* kind, const char* parts, const nlohmann::json& one, size_t n) {
        return nlohmann::json{{"type", kind}, {parts, nlohmann::json(n, one)}};
      };
  const nlohmann::json doubling = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  // Added tokens are normalized when the file is read.
  CHECK_THAT(problem_of(with("normalizer", sequence_of("Sequence", "normalizers", doubling, 60))),
             contains_text("normalizers of the tokenizer.json make more than"));
  const nlohmann::json prepending = {{"type", "Prepend"}, {"prepend", std::string(60000, 'x')}};
  CHECK_THAT(
      problem_of(with("normalizer", sequence_of("Sequence", "normalizers", prepending, 200))),
      contains_text("make more than"));
  CHECK_THAT(
      problem_of(with("normalizer", sequence_of("Sequence", "normalizers", prepending, 300))),
      contains_text("is one step too many (expected at most 256)"));

  nlohmann::json pieces = nlohmann::json(2000, {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}});
  pieces.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  CHECK_THAT(problem_of(with("post_processor",
                             {{"type", "TemplateProcessing"},
                              {"single", pieces},
                              {"pair", nlohmann::json::array()},
                              {"special_tokens",
                               {{"<s>", {{"id", "<s>"}, {"ids", {0}}, {"tokens", {"<s>"}}}}}}})),
             contains_text("adds more than 1024 tokens to a text"));

  std::string classes;
  for (int i = 0; i < 20000; ++i) {
    classes += "\\p{L}";
  }
  CHECK_THAT(problem_of(with("pre_tokenizer",
                             {{"type", "Split"},
                              {"pattern", {{"Regex", classes}}},
                              {"behavior", "Isolated"},
                              {"invert", false}})),
             contains_text("has too many character classes"));
  CHECK_THAT(message_of([] {
               const HfTokenizer made(std::string(600, '[') + std::string(600, ']'), "t");
             }),
             contains_text("is nested too deeply"));
  CHECK_THAT(
      message_of([] { const HfTokenizer made("version https://git-lfs.example/spec/v1", "t"); }),
      contains_text("t is a pointer of Git LFS, not the file"));
}

TEST_CASE("JSON of many small objects is parsed, and that of too many values is refused",
          "[plugins][tokenizers]") {
  const auto array_of = [](const std::string& value, size_t n) {
    std::string text = "[" + value;
    for (size_t i = 1; i < n; ++i) {
      text += "," + value;
    }
    return text + "]";
  };
  CHECK(parse_json(array_of("{}", 200'000), "t", "hf.file").size() == 200'000);
  CHECK_THAT(message_of([&] { (void)parse_json(array_of("0", 20'000'000), "t", "hf.file"); }),
             contains_text("t has too many values (expected at most 20000000)"));
  // Only brackets and commas outside of texts count.
  const std::string brackets(600, '[');
  const nlohmann::json texts = {"\\", "\"" + brackets, {{brackets + "\\\"", 1}}};
  CHECK(parse_json(texts.dump(), "t", "hf.file") == texts);
  CHECK_THAT(message_of([&] { (void)parse_json("[\"\\\\\"," + brackets, "t", "hf.file"); }),
             contains_text("t is nested too deeply (expected at most 512)"));
}

TEST_CASE("a changed file is read or refused, never more", "[plugins][tokenizers][fuzz]") {
  std::vector<nlohmann::json> files;
  for (const nlohmann::json& one : golden()["cases"]) {
    nlohmann::json json = tokenizer_of(one);
    auto& merges = json["model"]["merges"];
    if (merges.is_array() && merges.size() > 20) {
      merges.erase(merges.begin() + 20, merges.end());
    }
    files.push_back(std::move(json));
  }
  std::mt19937 random(11);
  const std::vector<nlohmann::json> values = {nullptr,
                                              true,
                                              -1,
                                              3,
                                              1e300,
                                              18446744073709551615u,
                                              "",
                                              "\u65e5",
                                              "x",
                                              nlohmann::json::array(),
                                              nlohmann::json::object(),
                                              {1, 2},
                                              {{"type", "NFC"}}};
  int num_read = 0;
  int num_refused = 0;
  const auto attempt = [&](const std::string& text) {
    try {
      const HfTokenizer tokenizer(text, "tokenizer.json");
      const Collected out = encode(tokenizer, "In the be\u0301ginning \U0001F469 12", {{0, 6}});
      tokenizer.decode(out.ids.data(), out.ids.size());
      ++num_read;
    } catch (const std::exception& error) {
      CHECK(error.what() != std::string());
      ++num_refused;
    }
  };
  for (int round = 0; round < 400; ++round) {
    nlohmann::json json = files[random() % files.size()];
    const nlohmann::json flat = json.flatten();
    for (int change = 0; change < 1 + round % 2; ++change) {
      auto at = flat.begin();
      do {  // rarely among the many tokens
        at = flat.begin();
        std::advance(at, static_cast<long>(random() % flat.size()));
      } while (at.key().rfind("/model/", 0) == 0 && random() % 50 != 0);
      nlohmann::json::json_pointer pointer(at.key());
      for (auto up = random() % 3; up > 0 && !pointer.empty(); --up) {
        pointer.pop_back();
      }
      try {
        json[pointer] = values[random() % values.size()];
      } catch (const nlohmann::json::exception&) {
        continue;  // the first change took its parent
      }
    }
    std::string text = json.dump();
    if (round % 4 == 0) {
      text.resize(random() % text.size());
    } else if (round % 4 == 1) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    attempt(text);
  }
  attempt(std::string(100000, '['));
  attempt(std::string(100000, '{'));
  CHECK(num_read > 3);
  CHECK(num_refused > 100);
}

TEST_CASE("general categories in patterns are those of the Unicode table",
          "[plugins][tokenizers]") {
  const auto matches = [](const std::string& pattern, const std::string& text) {
    size_t n = 0;
    Regex(pattern, "test.pattern", "pattern").find_all(text, [&](size_t, size_t) { ++n; });
    return n;
  };
  const std::string new_letter = "\U00031350";  // Unicode 15
  CHECK(matches(R"(\p{L})", new_letter) == 1);
  CHECK(matches(R"([\p{L}x])", new_letter) == 1);
  CHECK(matches(R"([^\p{L}])", new_letter) == 0);
  CHECK(matches(R"(\P{L})", new_letter + "1") == 1);
  CHECK(matches(R"(\p{^Lu})", "Aa") == 1);
  CHECK(matches(R"([a[\p{Nd}]-])", "a1-b") == 3);
  CHECK(matches(R"(\\p{L})", "L\\p{L}") == 1);  // a backslash, then p{L}
}

}  // namespace tenon
