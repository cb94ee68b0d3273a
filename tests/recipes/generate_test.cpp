// SPDX-License-Identifier: Apache-2.0
//
// --generate as a user gives it: a text that a small trained model writes, by each source of
// weights, and what is refused.
#include <filesystem>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

// Bytes of one line that repeats, which a tiny model learns in a few steps.
const std::string kLine = "the quick brown fox. ";

std::string repeated(int times) {
  std::string text;
  for (int i = 0; i < times; ++i) {
    text += kLine;
  }
  return text;
}

std::string recipe_of(const std::filesystem::path& text, const std::string& patch = "{}") {
  return patched(R"({"name": "lines", "threads": {"compute": 1},
      "model": {"type": "llama", "options": {"vocab_size": 256, "hidden_size": 48,
          "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 96}},
      "data": {"batch_size": 8, "train": {"type": "text", "options": {
          "path": ")" +
                     text.string() + R"(", "sequence_length": 48, "stride": 11}}},
      "loss": {"type": "cross_entropy"},
      "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
      "train": {"steps": 60}, "checkpoint": {}})",
                 patch);
}

// A run that has learned the line.
class LearnedLine {
 public:
  LearnedLine() : text_(folder_.write("text.txt", repeated(60))) {
    recipe_ = folder_.write("recipe.json", recipe_of(text_));
    const SubprocessResult result = run_host(recipe_, run_dir());
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
  }
  std::filesystem::path run_dir() const { return folder_.path() / "run"; }
  std::filesystem::path recipe() const { return recipe_; }
  std::filesystem::path folder() const { return folder_.path(); }

 private:
  ScratchFolder folder_;
  std::filesystem::path text_;
  std::filesystem::path recipe_;
};

const LearnedLine& learned() {
  static const LearnedLine run;
  return run;
}

SubprocessResult generate(std::vector<std::string> more) {
  more.insert(more.begin(), "--generate");
  return run_host(more);
}

// The same with a prompt on standard input, as printf writes it.
SubprocessResult piped(const std::string& prompt, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"sh", "-c", "printf '" + prompt + "' | \"$@\"", "sh"};
  for (const std::string& word : host_command()) {
    words.push_back(word);
  }
  words.emplace_back("--generate");
  words.insert(words.end(), more.begin(), more.end());
  return run_subprocess(words);
}

std::string text_of(const SubprocessResult& result) {
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return result.out;
}

}  // namespace

TEST_CASE("a trained model continues the line that it has learned", "[recipes]") {
  const std::string run = learned().run_dir().string();
  const SubprocessResult result =
      generate({"--run-dir", run, "--prompt", "the quick br", "--max-tokens", "30"});
  CHECK(text_of(result) == "own fox. the quick brown fox. \n");
  CHECK_THAT(result.err,
             contains_text("prompt of 12 tokens in ") && contains_text("; 30 tokens, ") &&
                 contains_text(" tokens/s; --max-tokens reached"));
  CHECK_THAT(result.err, !contains_text("no caches"));
  // The same from a pipe, from the checkpoint itself, and with the recipe of the run.
  CHECK(text_of(piped("the quick br\\n", {"--run-dir", run, "--max-tokens", "30"})) == result.out);
  std::string checkpoint;
  for (const auto& entry :
       std::filesystem::directory_iterator(learned().run_dir() / "checkpoints")) {
    checkpoint = entry.path().string();
  }
  CHECK(text_of(generate({"--from",
                          checkpoint,
                          "--recipe",
                          learned().recipe().string(),
                          "--prompt",
                          "the quick br",
                          "--max-tokens",
                          "30"})) == result.out);
}

TEST_CASE("an exported folder generates what the checkpoint does", "[recipes]") {
  const std::filesystem::path out = learned().folder() / "exported";
  const SubprocessResult exported =
      run_host({"--export", "hf", out.string(), "--run-dir", learned().run_dir().string()});
  REQUIRE(exported.exit_code == 0);
  CHECK(text_of(generate({"--import",
                          "hf",
                          out.string(),
                          "--recipe",
                          learned().recipe().string(),
                          "--prompt",
                          "the quick br",
                          "--max-tokens",
                          "30"})) == "own fox. the quick brown fox. \n");
}

TEST_CASE("the seed decides what is sampled", "[recipes]") {
  const std::string run = learned().run_dir().string();
  const auto sample = [&](const std::string& seed) {
    return text_of(generate({"--run-dir",
                             run,
                             "--prompt",
                             "a",
                             "--max-tokens",
                             "40",
                             "--temperature",
                             "1.5",
                             "--seed",
                             seed}));
  };
  const std::string first = sample("1");
  CHECK(sample("1") == first);
  CHECK(sample("2") != first);
}

TEST_CASE("a text ends at the longest sequence of the model", "[recipes]") {
  const std::string run = learned().run_dir().string();
  const SubprocessResult result =
      generate({"--run-dir", run, "--prompt", repeated(4), "--max-tokens", "500"});
  CHECK(text_of(result).size() == 96 - 4 * kLine.size() + 1);
  CHECK_THAT(result.err, contains_text("the model's longest sequence reached"));
  const SubprocessResult longer = generate({"--run-dir", run, "--prompt", repeated(5)});
  CHECK(longer.exit_code == 4);
  CHECK_THAT(longer.err,
             contains_text("[generate.not_possible]") &&
                 contains_text("the prompt has 105 tokens, and the model's sequences have at most "
                               "96; shorten the prompt"));
}

TEST_CASE("a run without a tokenizer, a missing run and an empty prompt are refused", "[recipes]") {
  const HostRun other(patched(small_language_recipe(), R"({"checkpoint": {}})"));
  REQUIRE(other.result().exit_code == 0);
  const SubprocessResult no_text =
      generate({"--run-dir", other.run_dir().string(), "--prompt", "a"});
  CHECK(no_text.exit_code == 3);
  CHECK_THAT(no_text.err, contains_text("[generate.no_tokenizer]"));

  const SubprocessResult missing = generate({"--run-dir", "nowhere", "--prompt", "a"});
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, contains_text("[storage.not_found]"));

  const SubprocessResult empty = piped("", {"--run-dir", learned().run_dir().string()});
  CHECK(empty.exit_code == 4);
  CHECK_THAT(empty.err, contains_text("the prompt is empty"));
}

}  // namespace tenon
