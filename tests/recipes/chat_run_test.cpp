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
