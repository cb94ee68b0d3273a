// SPDX-License-Identifier: Apache-2.0
//
// Runs on chats, by the program: --process-data, training on one rank and on two.
#include <filesystem>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// A folder with chats and a recipe that trains on them; the cache lies beside.
struct ChatFolder {
  ScratchFolder folder;
  std::filesystem::path recipe;

  explicit ChatFolder(const std::string& extra_line = "") {
    std::string lines;
    for (int i = 0; i < 24; ++i) {
      const std::string number = std::to_string(i % 4);
      lines += json{{"messages",
                     {{{"role", "user"}, {"content", "say " + number}},
                      {{"role", "assistant"}, {"content", std::string(3, "abcd"[i % 4])}}}}}
                   .dump() +
               "\n";
    }
    const json chats = {
        {"type", "chat"},
        {"options",
         {{"files", {folder.write("chats.jsonl", lines + extra_line).string()}},
          {"tokenizer", {{"type", "byte"}}},
          {"template", (source_dir() / "tests/support/chat_templates/generation.jinja").string()},
          {"cache", (folder.path() / "cache").string()}}}};
    const json options = {{"vocab_size", 256},
                          {"hidden_size", 32},
                          {"intermediate_size", 64},
                          {"num_hidden_layers", 1},
                          {"num_attention_heads", 2},
                          {"num_key_value_heads", 2}};
    recipe =
        folder.write("chat.json",
                     json{{"model", {{"type", "llama"}, {"options", options}}},
                          {"data", {{"batch_size", 4}, {"train", chats}, {"eval", chats}}},
                          {"loss", {{"type", "cross_entropy"}}},
                          {"optimizer", {{"type", "adamw"}, {"options", {{"lr", 0.01}}}}},
                          {"train", {{"steps", 12}, {"log_every", 1}, {"global_batch_size", 4}}}}
                         .dump(1));
  }
};

// tokenizer.json of a vocabulary of the 256 bytes, under the names of byte-level BPE: printable
// bytes of Latin-1 are themselves, the others follow from U+0100 on.
std::string byte_level_tokenizer() {
  json vocabulary = json::object();
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    const char32_t c = is_printable ? byte : next++;
    const std::string name = c < 0x80 ? std::string(1, static_cast<char>(c))
                                      : std::string{static_cast<char>(0xC0 | (c >> 6)),
                                                    static_cast<char>(0x80 | (c & 0x3F))};
    vocabulary[name] = static_cast<int>(byte);
  }
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", false}};
  return json{{"version", "1.0"},
              {"added_tokens", json::array()},
              {"normalizer", nullptr},
              {"pre_tokenizer", byte_level},
              {"post_processor", nullptr},
              {"decoder", byte_level},
              {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}}
      .dump();
}

}  // namespace

TEST_CASE("the data of a recipe can be processed before the run", "[recipes]") {
  const ChatFolder chats;
  const SubprocessResult processed =
      run_host({"--recipe", chats.recipe.string(), "--process-data"});
  INFO(processed.out << processed.err);
  REQUIRE(processed.exit_code == 0);
  CHECK_THAT(processed.out, contains_text("data/train: 24 samples\ndata/eval: 24 samples\n"));
  size_t num_shards = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(chats.folder.path() / "cache")) {
    num_shards += entry.path().extension() == ".bin" ? 1 : 0;
  }
  CHECK(num_shards == 1);
}

TEST_CASE("samples that the model cannot take end a run before its first step", "[recipes]") {
  const ChatFolder chats;
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--set", "train.steps=1", "--set", "checkpoint={}"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ScratchFolder folder;
    return run_host(chats.recipe, folder.path() / "run", 1, arguments);
  };
  const SubprocessResult positions = run({"--set", "model.options.max_position_embeddings=16"});
  CHECK(positions.exit_code == 3);
  CHECK_THAT(positions.err,
             contains_text("[data.beyond_model] ") &&
                 contains_text(": sample 0 (counted from 0) (") &&
                 contains_text("chats.jsonl, line 1) has ") &&
                 contains_text(" positions, but the model takes 16 (`max_position_embeddings`); "
                               "set `max_length` of the dataset to at most 17"));
  const SubprocessResult vocabulary = run({"--set", "model.options.vocab_size=120"});
  CHECK(vocabulary.exit_code == 3);
  CHECK_THAT(vocabulary.err,
             contains_text("[data.beyond_model] ") &&
                 contains_text("but the vocabulary of the model has 120 tokens"));
  CHECK(run({"--set", "model.options.vocab_size=255"}).exit_code == 0);
  // Rows may be longer than the context; their padding has no positions.
  const SubprocessResult packed = run({"--set",
                                       "model.options.max_position_embeddings=128",
                                       "--set",
                                       "data.train.packing.length=1000"});
  INFO(packed.err);
  CHECK(packed.exit_code == 0);
}

TEST_CASE("samples are shown with marks around the text that has labels", "[recipes]") {
  const ChatFolder chats;
  const std::vector<std::string> show = {
      "--recipe", chats.recipe.string(), "--process-data", "--show", "1"};
  const SubprocessResult shown = run_host(show);
  INFO(shown.out << shown.err);
  REQUIRE(shown.exit_code == 0);
  CHECK_THAT(shown.out,
             contains_text("--- sample 1: ") && contains_text("say 0") &&
                 contains_text("[[aaa<|im_end|>]]") && !contains_text("--- sample 2: "));
  std::vector<std::string> packed = show;
  packed.insert(packed.end(), {"--set", "data.train.packing.length=128"});
  CHECK(run_host(packed).out == shown.out);

  const std::string other = chats.folder.write("other.json", small_language_recipe()).string();
  const SubprocessResult refused = run_host({"--recipe", other, "--process-data", "--show", "1"});
  CHECK(refused.exit_code == 3);
  CHECK_THAT(
      refused.err,
      contains_text("[data.cannot_show] --show: no component of the recipe has a tokenizer"));
}

TEST_CASE("a chat is answered by the template of the tokenizer, or of a file", "[recipes]") {
  const ChatFolder chats;
  const std::filesystem::path run = chats.folder.path() / "run";
  const SubprocessResult trained =
      run_host(chats.recipe, run, 1, {"--set", "train.steps=60", "--set", "checkpoint={}"});
  INFO(trained.out << trained.err);
  REQUIRE(trained.exit_code == 0);
  const auto ask = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--generate", "--chat", "--run-dir", run.string()});
    more.insert(more.end(), {"--prompt", "say 1", "--max-tokens", "3"});
    return run_host(more);
  };
  const std::string file =
      (source_dir() / "tests/support/chat_templates/generation.jinja").string();
  CHECK(ask({"--chat-template", file}).out == "bbb\n");
  CHECK(ask({}).out == "bbb\n");  // the template of the training data
  const SubprocessResult missing = ask({"--chat-template", "nowhere.jinja"});
  CHECK(missing.exit_code == 2);
  const std::string large = chats.folder.write("large.jinja", std::string(1'000'001, ' ')).string();
  const SubprocessResult refused = ask({"--chat-template", large});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, contains_text("large.jinja: the file has more than 1 MB"));
  const std::string bad = chats.folder.write("bad.jinja", "{{ 1 | nothing }}").string();
  CHECK_THAT(ask({"--chat-template", bad}).err, contains_text("line 1"));
}

TEST_CASE("a run trains on chats, and on two ranks with the same loss", "[recipes]") {
  const ChatFolder chats;
  const std::filesystem::path one = chats.folder.path() / "one";
  const SubprocessResult alone = run_host(chats.recipe, one);
  INFO(alone.out << alone.err);
  REQUIRE(alone.exit_code == 0);
  const std::vector<json> records = metric_records(file_text(one / "metrics.jsonl"));
  REQUIRE(records.size() >= 12);
  const auto loss = [&](size_t i) { return records[i].at("loss").get<double>(); };
  CHECK(loss(11) < 0.7 * loss(0));

  const std::filesystem::path two = chats.folder.path() / "two";
  const SubprocessResult both = run_host(chats.recipe, two, 2, {"--set", "data.batch_size=2"});
  INFO(both.out << both.err);
  REQUIRE(both.exit_code == 0);
  const std::vector<json> same = metric_records(file_text(two / "metrics.jsonl"));
  REQUIRE(same.size() == records.size());
  for (size_t i = 0; i < 12; ++i) {
    CHECK(same[i].at("loss").get<double>() == Approx(loss(i)).epsilon(1e-4));
  }
}

TEST_CASE("an exported folder has the files of the tokenizer", "[recipes]") {
  const ChatFolder chats;
  json recipe = json::parse(file_text(chats.recipe));
  const ScratchFolder made;
  const std::string bytes = byte_level_tokenizer();
  made.write("tokenizer.json", bytes);
  made.write("generation_config.json",
             R"({"bos_token_id": 7, "eos_token_id": [33, 10, 9999], "pad_token_id": 9999,
                 "repetition_penalty": 1.25})");
  made.write("chat_template.jinja",
             file_text(source_dir() / "tests/support/chat_templates/generation.jinja"));
  for (const char* const set : {"train", "eval"}) {
    recipe["data"][set]["options"]["tokenizer"] = {{"type", "hf"},
                                                   {"options", {{"file", made.path().string()}}}};
  }
  recipe["train"]["steps"] = 1;
  recipe["checkpoint"] = {{"exports", {{{"format", "hf"}, {"at_end", true}}}}};
  const auto file = chats.folder.write("own.json", recipe.dump());
  const std::filesystem::path run = chats.folder.path() / "run";
  const SubprocessResult trained = run_host(file, run);
  INFO(trained.out << trained.err);
  REQUIRE(trained.exit_code == 0);

  const std::filesystem::path out = chats.folder.path() / "out";
  const SubprocessResult exported =
      run_host({"--export", "hf", out.string(), "--run-dir", run.string()});
  INFO(exported.out << exported.err);
  REQUIRE(exported.exit_code == 0);
  CHECK(file_text(out / "tokenizer.json") == bytes);
  CHECK(std::filesystem::exists(out / "chat_template.jinja"));
  // The folder of the tokenizer has no tokens that end a text, except in this file.
  const json ends = json::parse(file_text(out / "generation_config.json"));
  CHECK(ends.at("eos_token_id") == json({33, 10}));
  CHECK(ends.at("bos_token_id") == 7);
  CHECK(ends.at("pad_token_id").is_null());
  CHECK(ends.at("repetition_penalty") == 1.25);
  CHECK(json::parse(file_text(out / "config.json")).at("eos_token_id") == json({33, 10}));
  size_t num_found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run / "exports")) {
    if (entry.path().filename() == "tokenizer.json") {
      CHECK(file_text(entry.path()) == bytes);
      ++num_found;
    }
  }
  CHECK(num_found == 1);

  std::filesystem::remove(made.path() / "tokenizer.json");
  const SubprocessResult without = run_host(
      {"--export", "hf", (chats.folder.path() / "bare").string(), "--run-dir", run.string()});
  CHECK(without.exit_code == 0);
  CHECK_THAT(without.err,
             contains_text("the export has no tokenizer, because it cannot be created: "));
}

TEST_CASE("a model of a tokenizer without a template is exported with the one it was trained in",
          "[recipes]") {
  const ChatFolder chats;
  json recipe = json::parse(file_text(chats.recipe));
  json tokenizer = json::parse(byte_level_tokenizer());
  tokenizer["added_tokens"] = {{{"id", 256},
                                {"content", "<|im_end|>"},
                                {"single_word", false},
                                {"lstrip", false},
                                {"rstrip", false},
                                {"normalized", false},
                                {"special", true}}};
  const ScratchFolder made;
  made.write("tokenizer.json", tokenizer.dump());
  for (const char* const set : {"train", "eval"}) {
    json& options = recipe["data"][set]["options"];
    options.erase("template");
    options["tagged_template"] = "qwen3";
    options["tokenizer"] = {{"type", "hf"}, {"options", {{"file", made.path().string()}}}};
  }
  recipe["model"]["options"]["vocab_size"] = 257;
  recipe["train"]["steps"] = 1;
  recipe["checkpoint"] = json::object();
  const auto file = chats.folder.write("tagged.json", recipe.dump());
  const std::filesystem::path run = chats.folder.path() / "run";
  const SubprocessResult trained = run_host(file, run);
  INFO(trained.out << trained.err);
  REQUIRE(trained.exit_code == 0);
  const std::filesystem::path out = chats.folder.path() / "out";
  const SubprocessResult exported =
      run_host({"--export", "hf", out.string(), "--run-dir", run.string()});
  INFO(exported.out << exported.err);
  REQUIRE(exported.exit_code == 0);
  CHECK(file_text(out / "chat_template.jinja") ==
        file_text(source_dir() / "host/chat/templates/qwen3.jinja"));
  CHECK(json::parse(file_text(out / "generation_config.json")).at("eos_token_id") == 256);
}

TEST_CASE("a bad chat ends a run before its first step, without a run folder's results",
          "[recipes]") {
  const ChatFolder chats(R"({"messages": [{"role": "narrator", "content": "x"}]})");
  const SubprocessResult failed = run_host(chats.recipe, chats.folder.path() / "run");
  CHECK(failed.exit_code == 4);
  CHECK_THAT(failed.err,
             contains_text("chats.jsonl, line 25: message 1 of \"messages\" has the unknown role "
                           "\"narrator\""));
}

}  // namespace tenon
