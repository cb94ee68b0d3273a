// SPDX-License-Identifier: Apache-2.0
//
// The hook text_samples: its texts are those of --generate, training does not change by a bit, a
// resumed run has the lines of a run that never stopped, and mistakes end the run before its first
// step. On one rank and on several.
#include "host/error/plugin_text.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Bytes of one line that repeats, which a tiny model learns in a few steps.
std::string fox_lines() {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "the quick brown fox. ";
  }
  return text;
}

// Runs in folders beside each other.
class SampleRuns {
 public:
  SampleRuns() : text_(folder_.write("text.txt", fox_lines())) {}

  nlohmann::json recipe(const std::string& patch = "{}") const {
    nlohmann::json recipe = nlohmann::json::parse(R"({"name": "fox", "threads": {"compute": 1},
        "model": {"type": "llama", "options": {"vocab_size": 256, "hidden_size": 48,
            "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 96}},
        "data": {"batch_size": 4, "train": {"type": "text", "options": {
            "sequence_length": 48, "stride": 11}}},
        "loss": {"type": "cross_entropy"},
        "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
        "train": {"steps": 60, "global_batch_size": 8, "log_every": 1},
        "checkpoint": {"every_steps": 30, "keep_last": 0}})");
    recipe["data"]["train"]["options"]["path"] = text_.string();
    recipe.merge_patch(nlohmann::json::parse(patch));
    return recipe;
  }
  // The recipe with the hook.
  nlohmann::json sampled(const std::string& options = "{}", const std::string& patch = "{}") const {
    nlohmann::json with = recipe(patch);
    nlohmann::json hook = nlohmann::json::parse(R"({"type": "text_samples", "options": {
        "prompts": ["the quick br", "f"], "every_steps": 30, "max_tokens": 24}})");
    hook["options"].merge_patch(nlohmann::json::parse(options));
    with["hooks"].push_back(hook);
    return with;
  }
  SubprocessResult try_run(const std::string& name,
                           const nlohmann::json& recipe,
                           const std::vector<std::string>& more = {}) const {
    return run_host(folder_.write(name + ".json", recipe.dump(1)), path(name), 1, more);
  }
  nlohmann::json run(const std::string& name,
                     const nlohmann::json& recipe,
                     const std::vector<std::string>& more = {},
                     int exit_code = 0) const {
    const SubprocessResult result = try_run(name, recipe, more);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == exit_code);
    return nlohmann::json::parse(file_text(path(name) / "summary.json"));
  }
  // What a run says that ends before its first step.
  std::string refused(const nlohmann::json& recipe) const {
    const SubprocessResult result = try_run("refused", recipe);
    INFO(result.out << result.err);
    CHECK(result.exit_code != 0);
    if (fs::exists(path("refused"))) {
      CHECK(records_of(path("refused")).empty());
    }
    fs::remove_all(path("refused"));
    return result.err;
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  const fs::path& text() const { return text_; }
  std::string file(const std::string& name) const {
    return file_text(path(name) / "text_samples.jsonl");
  }
  std::vector<nlohmann::json> lines(const std::string& name) const {
    std::vector<nlohmann::json> found;
    std::istringstream in(file(name));
    for (std::string line; std::getline(in, line);) {
      found.push_back(nlohmann::json::parse(line));
    }
    return found;
  }
  // Checkpoints of a run, by step.
  std::map<uint64_t, fs::path> checkpoints(const std::string& name) const {
    std::map<uint64_t, fs::path> found;
    for (const auto& entry : fs::directory_iterator(path(name) / "checkpoints")) {
      if (fs::exists(entry.path() / "COMMITTED")) {
        const std::string file = entry.path().filename().string();
        found[std::stoull(file.substr(file.find_first_of("0123456789")))] = entry.path();
      }
    }
    return found;
  }
  // What --generate prints with a checkpoint for a sampled line.
  std::string generated(const fs::path& checkpoint,
                        const nlohmann::json& line,
                        const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"--generate",
                                      "--from",
                                      checkpoint.string(),
                                      "--prompt",
                                      line["prompt"].get<std::string>(),
                                      "--max-tokens",
                                      "24"};
    words.insert(words.end(), more.begin(), more.end());
    const SubprocessResult result = run_host(words);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return result.out;
  }
  // Compares each line with --generate, which escapes control characters and ends with a line
  // break.
  void check_generated(const std::string& name,
                       size_t num_lines,
                       const std::vector<std::string>& more = {}) const {
    const auto saved = checkpoints(name);
    const std::vector<nlohmann::json> found = lines(name);
    REQUIRE(found.size() == num_lines);
    for (const nlohmann::json& line : found) {
      CAPTURE(line.dump());
      const auto checkpoint = saved.find(line["step"].get<uint64_t>());
      REQUIRE(checkpoint != saved.end());
      const std::string text = line["text"];
      CHECK(printable_text(text) + (text.ends_with('\n') ? "" : "\n") ==
            generated(checkpoint->second, line, more));
    }
  }

 private:
  ScratchFolder folder_;
  fs::path text_;
};

}  // namespace

TEST_CASE("sampled texts are those of --generate with the checkpoint of the step", "[samples]") {
  const SampleRuns runs;
  const SubprocessResult result = runs.try_run("run", runs.sampled());
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  runs.check_generated("run", 4);
  const std::vector<nlohmann::json> lines = runs.lines("run");
  CHECK(lines[2] == nlohmann::json::parse(R"({"step": 60, "at": "step", "prompt": "the quick br",
      "text": "own fox. the quick brown", "prompt_tokens": 12, "tokens": 24,
      "finish": "max_tokens"})"));
  CHECK_THAT(result.err + result.out,
             contains_text(R"(text at step 60: "the quick br" -> "own fox. the quick brown")"));
}

TEST_CASE("drawn texts, averages and adapters give what --generate gives", "[samples][.release]") {
  const SampleRuns runs;
  SECTION("draws") {
    runs.run("run", runs.sampled(R"({"temperature": 0.7, "top_k": 9, "top_p": 0.9, "seed": 5})"));
    runs.check_generated(
        "run", 4, {"--temperature", "0.7", "--top-k", "9", "--top-p", "0.9", "--seed", "5"});
  }
  SECTION("averages") {
    runs.run("run",
             runs.sampled("{}", R"({"hooks": [{"type": "ema", "options": {"decay": 0.8}}]})"));
    runs.check_generated("run", 4);
  }
  SECTION("adapters") {
    runs.run("base", runs.recipe());
    nlohmann::json recipe = runs.sampled("{}", R"({"model": {"parametrizations": [
        {"match": ["*.q_proj.weight", "*.up_proj.weight"], "type": "lora",
         "options": {"rank": 4, "alpha": 8}}]}})");
    recipe["load"] = {{{"from", runs.path("base").string()}}};
    runs.run("run", recipe);
    runs.check_generated("run", 4);
  }
  SECTION("a model without caches") {
    nlohmann::json recipe = runs.sampled("{}", R"({"model": null})");
    recipe["model"] = {{"type", "module_lm"}, {"options", {{"vocab_size", 256}, {"dim", 24}}}};
    runs.run("run", recipe);
    runs.check_generated("run", 4);
  }
}

TEST_CASE("training does not change by a bit", "[samples]") {
  const SampleRuns runs;
  // Dropout draws from the generators of libtorch.
  const std::string patch = GENERATE(
      R"({"data": {"eval": {"type": "text", "options": {"sequence_length": 48}}},
          "eval": {"every_steps": 15, "batches": 2}})",
      R"({"model": {"type": "gpt2", "options": null}, "train": {"global_batch_size": 12}})");
  CAPTURE(patch);
  const auto prepare = [&](nlohmann::json recipe) {
    recipe["train"]["steps"] = 20;
    if (recipe["model"]["type"] == "gpt2") {
      recipe["model"]["options"] = {
          {"vocab_size", 256}, {"n_embd", 32}, {"n_layer", 2}, {"n_head", 4}, {"n_positions", 96}};
    } else {
      recipe["data"]["eval"]["options"]["path"] = runs.text().string();
    }
    return recipe;
  };
  const nlohmann::json plain = runs.run("plain", prepare(runs.recipe(patch)));
  const nlohmann::json with =
      runs.run("with", prepare(runs.sampled(R"({"every_steps": 1, "max_tokens": 5})", patch)));
  CHECK(plain["parameters_hash"] == with["parameters_hash"]);
  CHECK(records_of(runs.path("plain")) == records_of(runs.path("with")));
  CHECK(runs.lines("with").size() == 40);
}

TEST_CASE("calls of the hook and of the model pass the checking mode", "[samples][.release]") {
  const SampleRuns runs;
  const std::string options = R"({"every_steps": 1, "max_tokens": 3})";
  nlohmann::json recipe = runs.sampled(options, R"({"train": {"steps": 2}})");
  runs.run("checked", recipe, {"--check-plugins"});
  CHECK(runs.lines("checked").size() == 4);
}

TEST_CASE("several ranks write the texts once, also with sharded parameters",
          "[samples][.release]") {
  const SampleRuns runs;
  const std::string parallel =
      GENERATE(R"({"parallel": {"replicate": 2, "shard": 1}})",
               R"({"parallel": {"shard": -1, "stage": 2}})",
               R"({"parallel": {"shard": -1, "stage": 3, "reshard_after_forward": true}})",
               R"({"parallel": {"shard": -1, "stage": 3},
                   "hooks": [{"type": "ema", "options": {"decay": 0.8}}],
                   "model": {"options": {"tie_word_embeddings": true}}})");
  CAPTURE(parallel);
  const nlohmann::json plain = runs.run("plain", runs.recipe(parallel), {"--launch", "2"});
  const nlohmann::json with = runs.run("with", runs.sampled("{}", parallel), {"--launch", "2"});
  CHECK(plain["parameters_hash"] == with["parameters_hash"]);
  runs.check_generated("with", 4);
}

TEST_CASE("a resumed run has the lines of a run that never stopped", "[samples][.release]") {
  const SampleRuns runs;
  nlohmann::json recipe = runs.sampled(R"({"every_steps": 6})", R"({
      "train": {"steps": 40}, "checkpoint": {"every_steps": 20},
      "eval": {"every_steps": 15, "batches": 1, "at_end": false},
      "data": {"eval": {"type": "text", "options": {"sequence_length": 48}}}})");
  recipe["data"]["eval"]["options"]["path"] = runs.text().string();
  runs.run("whole", recipe);
  std::vector<uint64_t> steps;
  for (const nlohmann::json& line : runs.lines("whole")) {
    steps.push_back(line["step"]);
  }
  CHECK(steps ==
        std::vector<uint64_t>{6, 6, 12, 12, 15, 15, 18, 18, 24, 24, 30, 30, 36, 36, 40, 40});
  CHECK(runs.lines("whole").back()["at"] == "end");

  runs.run("parts", recipe, {"--set", "train.exit_at_step=25"}, 75);
  CHECK(runs.lines("parts").back()["at"] == "end");
  runs.run("parts", recipe);
  CHECK(runs.file("parts") == runs.file("whole"));

  // From an earlier checkpoint than the last one.
  runs.run("earlier", recipe, {"--set", "train.exit_at_step=35"}, 75);
  fs::remove_all(runs.checkpoints("earlier").rbegin()->second);
  CHECK(runs.checkpoints("earlier").rbegin()->first == 20);
  runs.run("earlier", recipe);
  CHECK(runs.file("earlier") == runs.file("whole"));
}

TEST_CASE("a run whose losses need no logits generates with the head that it skips", "[samples]") {
  const SampleRuns runs;
  nlohmann::json recipe = runs.sampled(R"({"chat": true, "prompts": ["hi"]})");
  recipe["model"]["options"]["vocab_size"] = 261;
  recipe["loss"] = {{"type", "preference"}, {"options", {{"type", "simpo"}}}};
  recipe["data"] = {{"batch_size", 2}, {"train", {{"type", "chat"}}}};
  nlohmann::json& options = recipe["data"]["train"]["options"];
  std::ofstream pairs(runs.path("pairs.jsonl"));
  for (int i = 0; i < 8; ++i) {
    pairs << R"({"prompt": "hi", "chosen": "yo", "rejected": "no"})"
          << "\n";
  }
  pairs.close();
  options["files"] = {runs.path("pairs.jsonl").string()};
  options["cache"] = "";
  options["tokenizer"] = nlohmann::json::parse(R"({"type": "special_bytes", "options": {
      "specials": ["<u>", "<a>", "<s>", "</>", "<bos>"], "bos": "<bos>", "eos": "</>",
      "chat_template":
          "{% set marks = {'user': '<u>', 'assistant': '<a>', 'system': '<s>'} %}{% for m in messages %}{{ marks[m.role] }}{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"}})");
  runs.run("run", recipe);
  runs.check_generated("run", 2, {"--chat"});
}

TEST_CASE("texts that cannot be generated end the run before its first step", "[samples]") {
  const SampleRuns runs;
  nlohmann::json no_text = nlohmann::json::parse(small_language_recipe());
  no_text["hooks"] = runs.sampled()["hooks"];
  CHECK_THAT(runs.refused(no_text),
             contains_text("[generate.no_tokenizer] at start: hook \"text_samples\"") &&
                 contains_text("no component of the recipe has a tokenizer"));
  CHECK_THAT(runs.refused(runs.sampled(R"({"chat": true})")),
             contains_text("[generate.no_template] at start: hook \"text_samples\"") &&
                 contains_text("the tokenizer has no chat template, which a chat needs"));
  nlohmann::json longer = runs.sampled();
  longer["hooks"][0]["options"]["prompts"] = {std::string(96, 'a')};
  CHECK_THAT(runs.refused(longer),
             contains_text("[generate.not_possible]") &&
                 contains_text("the prompt has 96 tokens, and the model's sequences have at most "
                               "96; shorten the prompt"));
}

TEST_CASE("options of text_samples that contradict each other are refused", "[samples]") {
  const SampleRuns runs;
  const auto says = [&](const std::string& options) { return runs.refused(runs.sampled(options)); };
  CHECK_THAT(says(R"({"every_steps": 0, "at_evaluations": false, "at_end": false})"),
             contains_text("hook \"text_samples\"") && contains_text("option `every_steps` is 0") &&
                 contains_text("nothing is generated"));
  CHECK_THAT(says(R"({"top_k": 4})"),
             contains_text("option `top_k` has no effect with temperature 0"));
  CHECK_THAT(says(R"({"seed": 4})"),
             contains_text("option `seed` has no effect with temperature 0"));
  CHECK_THAT(says(R"({"system": "be brief"})"),
             contains_text("option `system` has no effect without chat"));
  CHECK_THAT(says(R"({"prompts": []})"), contains_text("/hooks/0/options/prompts"));
  CHECK_THAT(says(R"({"top_p": 0})"), contains_text("/hooks/0/options/top_p"));
}

}  // namespace tenon
