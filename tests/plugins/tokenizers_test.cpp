// SPDX-License-Identifier: Apache-2.0
//
// The tokenizer plugins hf, tiktoken and sentencepiece through the ABI.
#include <tenon/tokenizer.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/plugins/made_tokenizer.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

std::string making_error(const std::string& type, const nlohmann::json& options) {
  return error_of([&] { const MadeTokenizer made(type, options); });
}

// The first tokenizer of the golden file: byte-level BPE with special tokens.
std::string small_json() {
  const nlohmann::json golden = nlohmann::json::parse(
      file_text((source_dir() / "tests/parity/tokenizers_golden.json").string()));
  nlohmann::json json = golden["cases"][0]["tokenizer"];
  json["model"] = golden["models"]["byte_bpe"];
  return json.dump();
}

std::string base64(const std::string& bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
    }
  }
  return out;
}

// All bytes, then some longer tokens.
std::vector<std::string> ranked_tokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(std::string(1, static_cast<char>(byte)));
  }
  for (const char* token :
       {"he", "in", " t", "th", " the", "hell", "o ", "ll", "hello", "\xe6\x97"}) {
    tokens.emplace_back(token);
  }
  return tokens;
}

std::string tiktoken_file() {
  std::string out;
  const std::vector<std::string> tokens = ranked_tokens();
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    out += base64(tokens[rank]) + " " + std::to_string(rank) + "\n";
  }
  return out;
}

std::string tekken_file() {
  nlohmann::json vocab = nlohmann::json::array();
  const std::vector<std::string> tokens = ranked_tokens();
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    vocab.push_back(
        {{"rank", rank}, {"token_bytes", base64(tokens[rank])}, {"token_str", nullptr}});
  }
  return nlohmann::json{{"config",
                         {{"pattern", R"(\p{L}+| ?[^\s\p{L}]+|\s+)"},
                          {"num_vocab_tokens", tokens.size()},
                          {"default_vocab_size", tokens.size() + 22},
                          {"default_num_special_tokens", 22},
                          {"version", "v3"}}},
                        {"vocab", vocab}}
      .dump();
}

}  // namespace

TEST_CASE("hf reads a folder with its special tokens and template", "[plugins][tokenizers]") {
  const ScratchFolder folder;
  const std::string json = small_json();
  const std::string config =
      R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null,
          "add_bos_token": true, "chat_template": [{"name": "tools", "template": "no"},
          {"name": "default", "template": "{{ bos_token }}"}]})";
  folder.write("tokenizer.json", json);
  folder.write("tokenizer_config.json", config);
  folder.write("special_tokens_map.json", R"({"eos_token": "<s>", "unk_token": "<|im_end|>"})");
  for (const auto& file : {folder.path(), folder.path() / "tokenizer.json"}) {
    const MadeTokenizer hf("hf", {{"file", file.string()}});
    const auto specials = hf.specials();
    CHECK(specials.size() == 3);
    CHECK(specials.at("bos_token") == std::pair<std::string, int64_t>("<s>", 0));
    CHECK(specials.at("eos_token").first == "</s>");
    CHECK(specials.at("unk_token").first == "<|im_end|>");
    CHECK(hf.info().bos == 0);
    CHECK(hf.info().eos == 1);
    CHECK(hf.info().pad == -1);
    CHECK(hf.info().chat_template_ref == std::string("{{ bos_token }}"));
    const auto files = hf.files();
    CHECK(files.at("tokenizer.json") == json);
    CHECK(files.at("tokenizer_config.json") == config);
    CHECK(files.size() == 3);
  }
  // Ids of config.json count without a generation_config.json, as in transformers.
  folder.write("config.json", R"({"eos_token_id": [1, 2], "vocab_size": 7})");
  CHECK(nlohmann::json::parse(MadeTokenizer("hf", {{"file", folder.path().string()}})
                                  .files()
                                  .at("generation_config.json")) ==
        nlohmann::json({{"eos_token_id", {1, 2}}}));
  folder.write("generation_config.json", R"({"eos_token_id": 1})");
  CHECK(MadeTokenizer("hf", {{"file", folder.path().string()}})
            .files()
            .at("generation_config.json") == R"({"eos_token_id": 1})");
  folder.write("chat_template.jinja", "{{ messages }}");
  const MadeTokenizer hf("hf", {{"file", folder.path().string()}});
  CHECK(hf.info().chat_template_ref == std::string("{{ messages }}"));
  CHECK(hf.files().at("chat_template.jinja") == "{{ messages }}");
}

TEST_CASE("hf encodes pieces as one text", "[plugins][tokenizers]") {
  const ScratchFolder folder;
  const auto file = folder.write("tokenizer.json", small_json());
  const MadeTokenizer hf("hf", {{"file", file.string()}});
  const std::string text = "In the beginning God</s> created";
  const std::vector<int32_t> plain = hf.encode(text);
  CHECK(hf.decode(plain) == text);
  CHECK(hf.encode_pieces({{"In the beg"}, {"inning God</s> created"}}).ids == plain);

  const Encoded chat = hf.encode_pieces(
      {{"<s>", TENON_PIECE_TEMPLATE}, {"God</s>"}, {"</s>", TENON_PIECE_TEMPLATE}});
  CHECK(chat.ids.front() == 0);
  CHECK(chat.ids.back() == 1);
  CHECK(std::count(chat.ids.begin(), chat.ids.end(), 1) == 1);
  CHECK(chat.begins.front() == 0);
  CHECK(chat.ends.front() == 3);
  CHECK(chat.begins.back() == 10);
  CHECK(chat.ends.back() == 14);
  CHECK(std::is_sorted(chat.begins.begin(), chat.begins.end()));
  CHECK(hf.encode_pieces({}).ids.empty());
}

TEST_CASE("hf reads templates for other uses than the default", "[plugins][tokenizers]") {
  const ScratchFolder folder;
  folder.write("tokenizer.json", small_json());
  folder.write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  folder.write("chat_template.jinja", "{{ messages }}");
  std::filesystem::create_directory(folder.path() / "additional_chat_templates");
  folder.write("additional_chat_templates/tool_use.jinja", "{{ tools }}");
  const MadeTokenizer hf("hf", {{"file", folder.path().string()}});
  CHECK(hf.info().chat_template_ref == std::string("{{ messages }}"));
  const auto files = hf.files();
  CHECK(files.count("chat_template.jinja") == 0);
  const auto config = nlohmann::json::parse(files.at("tokenizer_config.json"));
  CHECK(config == nlohmann::json{{"bos_token", "<s>"},
                                 {"chat_template",
                                  {{{"name", "default"}, {"template", "{{ messages }}"}},
                                   {{"name", "tool_use"}, {"template", "{{ tools }}"}}}}});
}

namespace {

// A tokenizer.json whose model can make "</s>", id 1, of text.
nlohmann::json json_with_model(const nlohmann::json& model) {
  return {{"version", "1.0"},
          {"added_tokens",
           {{{"id", 1},
             {"content", "</s>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", true},
             {"normalized", false},
             {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model", model}};
}

}  // namespace

TEST_CASE("text never becomes a special token, whatever the model", "[plugins][tokenizers]") {
  using nlohmann::json;
  const json letters = {{"<unk>", 0},
                        {"</s>", 1},
                        {"<", 2},
                        {"/", 3},
                        {"s", 4},
                        {">", 5},
                        {"</", 6},
                        {"s>", 7},
                        {"a", 8}};
  json scored = json::array();
  for (int id = 0; id < 9; ++id) {
    for (const auto& [text, number] : letters.items()) {
      if (number == id) {
        scored.push_back({text, id < 2 ? 0.0 : -1.0});
      }
    }
  }
  const json merges = {"< /", "s >", "</ s>"};
  const std::vector<json> models = {
      {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", scored}},
      {{"type", "BPE"}, {"unk_token", "<unk>"}, {"vocab", letters}, {"merges", merges}},
      {{"type", "BPE"},
       {"unk_token", "<unk>"},
       {"ignore_merges", true},
       {"vocab", letters},
       {"merges", json::array()}},
      {{"type", "WordPiece"},
       {"unk_token", "<unk>"},
       {"continuing_subword_prefix", ""},
       {"max_input_chars_per_word", 100},
       {"vocab", letters}},
      {{"type", "WordLevel"}, {"unk_token", "<unk>"}, {"vocab", letters}}};
  const ScratchFolder folder;
  for (const json& model : models) {
    CAPTURE(model.dump());
    const auto file = folder.write("tokenizer.json", json_with_model(model).dump());
    const MadeTokenizer hf("hf", {{"file", file.string()}});
    const std::vector<int32_t> ids = hf.encode("</s>");
    CHECK(std::count(ids.begin(), ids.end(), 1) == 0);
    CHECK_FALSE(ids.empty());
    CHECK(hf.encode_pieces({{"</s>", TENON_PIECE_TEMPLATE}}).ids == std::vector<int32_t>{1});
  }
}

TEST_CASE("hf names files and keys that are missing or wrong", "[plugins][tokenizers]") {
  const ScratchFolder folder;
  const std::string path = folder.path().string();
  CHECK_THAT(making_error("hf", {{"file", path}}),
             contains_text(path + " has no tokenizer.json: pass a folder with a tokenizer.json"));
  folder.write("tokenizer.model", "\n\x0e");
  CHECK_THAT(making_error("hf", {{"file", path}}),
             contains_text("use the tokenizer \"sentencepiece\" with its tokenizer.model"));
  folder.write("tokenizer.model", "IQ== 0\n");
  CHECK_THAT(making_error("hf", {{"file", path}}),
             contains_text("use the tokenizer \"tiktoken\" with its tokenizer.model"));
  folder.write("tokenizer.json", small_json().substr(0, 1000));
  CHECK_THAT(making_error("hf", {{"file", path}}), contains_text("tokenizer.json is not JSON"));
  folder.write("tokenizer.json", small_json());
  folder.write("tokenizer_config.json", R"({"pad_token": "<pad>"})");
  CHECK_THAT(making_error("hf", {{"file", path}}),
             contains_text("tokenizer_config.json: /pad_token is \"<pad>\", which"));
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "a", "template": "b"}]})");
  CHECK_THAT(making_error("hf", {{"file", path}}),
             contains_text("/chat_template has no template named \"default\""));
  folder.write("tokenizer_config.json", "[]");
  CHECK_THAT(making_error("hf", {{"file", path}}),
             contains_text("tokenizer_config.json: / is array (expected an object)"));
}

TEST_CASE("tiktoken merges by rank and knows special tokens", "[plugins][tokenizers]") {
  const ScratchFolder folder;
  const auto file = folder.write("small.tiktoken", tiktoken_file());
  const MadeTokenizer made("tiktoken",
                           {{"file", file.string()},
                            {"pattern", "gpt2"},
                            {"special_tokens",
                             {{{"text", "<|end|>"}, {"name", "eos_token"}},
                              {{"text", "<|pad|>"}, {"id", 300}},
                              {{"text", "<|start|>"}, {"name", "bos_token"}}}}});
  CHECK(made.info().vocab_size == 302);
  CHECK(made.info().eos == 266);
  CHECK(made.info().bos == 301);
  CHECK(made.encode("hello the") == std::vector<int32_t>{264, 260});
  CHECK(made.encode("hellin") == std::vector<int32_t>{261, 257});
  const std::string text = "hello\xe6\x97\xa5<|end|>";
  CHECK(made.decode(made.encode(text)) == text);
  const Encoded around = made.encode_pieces(
      {{"hello\xe6\x97\xa5"}, {"<|end|>", TENON_PIECE_TEMPLATE}}, TENON_ENCODE_AROUND);
  CHECK(around.ids == std::vector<int32_t>{301, 264, 265, 0xa5, 266});
  CHECK(around.begins == std::vector<int64_t>{0, 0, 5, 5, 8});
  CHECK(around.ends == std::vector<int64_t>{0, 5, 8, 8, 15});
  CHECK(made.files().at("small.tiktoken") == tiktoken_file());
}

TEST_CASE("tiktoken reads tekken.json", "[plugins][tokenizers]") {
  const ScratchFolder folder;
  const auto file = folder.write("tekken.json", tekken_file());
  const MadeTokenizer made("tiktoken", {{"file", file.string()}});
  CHECK(made.info().vocab_size == 22 + 266);
  CHECK(made.info().bos == 1);
  CHECK(made.info().eos == 2);
  CHECK(made.info().pad == 11);
  CHECK(made.encode("hello") == std::vector<int32_t>{264 + 22});
  CHECK(made.encode_pieces({{"[INST]hello<SPECIAL_21>", TENON_PIECE_TEMPLATE}}).ids ==
        std::vector<int32_t>{3, 264 + 22, 21});
  CHECK(made.decode({3, 264 + 22, 21}) == "[INST]hello<SPECIAL_21>");
}

TEST_CASE("tiktoken names lines and options that are wrong", "[plugins][tokenizers]") {
  const ScratchFolder folder;
  const std::string good = tiktoken_file();
  const auto problem = [&](const std::string& content, nlohmann::json options) {
    options["file"] = folder.write("x.tiktoken", content).string();
    return making_error("tiktoken", options);
  };
  const nlohmann::json gpt2 = {{"pattern", "gpt2"}};
  CHECK_THAT(problem(good, nlohmann::json::object()),
             contains_text("x.tiktoken has no split pattern; set `pattern`"));
  CHECK_THAT(problem(good, {{"pattern", "(a"}}),
             contains_text("option `pattern`: the pattern (a is no regular expression"));
  CHECK_THAT(problem("!! 0\n", gpt2), contains_text("x.tiktoken: line 1 is no token"));
  CHECK_THAT(problem("QQ== 0\nQg== 5\n", gpt2), contains_text("line 2 has rank 5 (expected 1)"));
  CHECK_THAT(problem("QQ== 0\nQQ== 1\n", gpt2),
             contains_text("line 2 has the bytes of an earlier token"));
  CHECK_THAT(problem("QQ== 0\n", gpt2), contains_text("the vocabulary has no token for byte 0"));
  CHECK_THAT(problem("", gpt2), contains_text("x.tiktoken has no tokens"));
  CHECK_THAT(
      problem(good, {{"pattern", "gpt2"}, {"special_tokens", {{{"text", "<s>"}, {"id", 3}}}}}),
      contains_text("special token \"<s>\" has id 3, which another token has"));
  CHECK_THAT(problem("{\"config\": {}}", gpt2), contains_text("/config has no \"pattern\""));
}

TEST_CASE("sentencepiece refuses what is no model", "[plugins][tokenizers]") {
  const ScratchFolder folder;
  const auto file = folder.write("tokenizer.model", "not a model");
  CHECK_THAT(making_error("sentencepiece", {{"file", file.string()}}),
             contains_text("tokenizer.model is no model of SentencePiece"));
  CHECK_THAT(making_error("sentencepiece", {{"file", "/none/tokenizer.model"}}),
             contains_text("cannot open /none/tokenizer.model"));
}

TEST_CASE("sentencepiece encodes a model's golden texts", "[plugins][tokenizers]") {
  const nlohmann::json golden = nlohmann::json::parse(
      file_text((source_dir() / "tests/parity/sentencepiece_golden.json").string()));
  for (const nlohmann::json& one : golden) {
    CAPTURE(one["model"]);
    const MadeTokenizer made(
        "sentencepiece",
        {{"file", (source_dir() / "tests/parity" / one["model"].get<std::string>()).string()}});
    CHECK(made.info().bos == 1);
    CHECK(made.info().eos == 2);
    for (const nlohmann::json& text : one["texts"]) {
      CAPTURE(text["text"]);
      const Encoded found = made.encode_pieces({{text["text"].get<std::string>()}});
      CHECK(found.ids == text["ids"].get<std::vector<int32_t>>());
      CHECK(found.begins == text["begins"].get<std::vector<int64_t>>());
      CHECK(found.ends == text["ends"].get<std::vector<int64_t>>());
      CHECK(made.encode(text["text"]) == found.ids);
      CHECK(made.decode(found.ids) == text["decoded"]);
    }
    const Encoded chat = made.encode_pieces(
        {{"<s>", TENON_PIECE_TEMPLATE}, {"the </s>"}, {"</s>", TENON_PIECE_TEMPLATE}});
    CHECK(chat.ids.front() == 1);
    CHECK(chat.ids.back() == 2);
    CHECK(std::count(chat.ids.begin(), chat.ids.end(), 2) == 1);
    CHECK(made.encode_pieces({{"the"}}, TENON_ENCODE_AROUND).ids.front() == 1);
    CHECK_THAT(error_of([&] { made.encode("a\xff"); }),
               contains_text("the text is not valid UTF-8 at byte 1"));
    CHECK_THAT(error_of([&] {
                 made.decode({1, 99999});
               }),
               contains_text("id 99999 at position 1 is out of range"));
  }
}

}  // namespace tenon
