// SPDX-License-Identifier: Apache-2.0
//
// Questions with choices, answered by a model of transformers: against the answers of lm-eval's
// rule (tests/parity/choices_golden.py), for any batch size and number of ranks; and bad files.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

nlohmann::json golden() {
  std::ifstream file(source_dir() / "tests/parity/choices_golden.json");
  return nlohmann::json::parse(file);
}

std::string lines_of(const nlohmann::json& questions) {
  std::string text;
  for (const nlohmann::json& question : questions) {
    text += question.dump() + "\n";
  }
  return text;
}

// Evaluates a file of questions.
class Choices {
 public:
  explicit Choices(const std::string& lines) : lines_(lines) {}

  nlohmann::json recipe(const std::string& patch = "{}") const {
    const nlohmann::json data = {
        {"type", "multiple_choice"},
        {"options",
         {{"path", folder_.write("questions.jsonl", lines_).string()}, {"prompt", "{question}="}}}};
    nlohmann::json recipe = nlohmann::json::parse(R"({"name": "choices", "threads": {"compute": 1},
        "model": {"type": "llama", "options": {"vocab_size": 64, "hidden_size": 16,
            "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 500.0,
            "num_hidden_layers": 1, "tie_word_embeddings": true, "rope_scaling": {
              "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 8}}},
        "data": {"batch_size": 3}, "loss": {"type": "cross_entropy"},
        "metrics": [{"type": "multiple_choice"}],
        "optimizer": {"type": "sgd", "options": {"lr": 0.1}}, "train": {"steps": 1}})");
    recipe["data"]["train"] = data;
    recipe["data"]["eval"] = data;
    recipe["load"][0]["from"] = (source_dir() / "tests/parity/hf_tied").string();
    recipe.merge_patch(nlohmann::json::parse(patch));
    return recipe;
  }
  nlohmann::json evaluate(const std::string& patch = "{}",
                          const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"--eval-only"};
    words.insert(words.end(), more.begin(), more.end());
    const std::filesystem::path run = folder_.path() / ("run" + std::to_string(num_runs_++));
    const SubprocessResult result =
        run_host(folder_.write("recipe.json", recipe(patch).dump()), run, 1, words);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    return records_of(run).back();
  }
  std::string refusal(const std::string& options = "{}") const {
    nlohmann::json bad = recipe();
    bad["data"]["eval"]["options"].merge_patch(nlohmann::json::parse(options));
    const SubprocessResult result = run_host(
        folder_.write("recipe.json", bad.dump()), folder_.path() / "refused", 1, {"--eval-only"});
    CHECK(result.exit_code != 0);
    CHECK_FALSE(std::filesystem::exists(folder_.path() / "refused"));
    return result.err;
  }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  ScratchFolder folder_;
  std::string lines_;
  mutable int num_runs_ = 0;
};

constexpr char kAcc[] = "eval/multiple_choice/acc";
constexpr char kAccNorm[] = "eval/multiple_choice/acc_norm";

}  // namespace

TEST_CASE("accuracies and loss are those of lm-eval's rule", "[choices]") {
  const nlohmann::json want = golden();
  const Choices choices(lines_of(want["questions"]));
  const auto check = [&](const nlohmann::json& got) {
    CHECK(got.at(kAcc).get<double>() == Approx(want["acc"].get<double>()).epsilon(1e-12));
    CHECK(got.at(kAccNorm).get<double>() == Approx(want["acc_norm"].get<double>()).epsilon(1e-12));
    CHECK(got.at("eval/loss").get<double>() == Approx(want["loss"].get<double>()).epsilon(1e-6));
  };
  check(choices.evaluate());
  check(choices.evaluate(R"({"data": {"batch_size": 7}})"));
  check(choices.evaluate(R"({"metrics": [{"type": "multiple_choice",
                             "inputs": {"logits": "token_logps"}}]})"));
  check(choices.evaluate("{}", {"--launch", "3"}));
}

TEST_CASE("each answer is that of lm-eval's rule", "[choices]") {
  const nlohmann::json want = golden();
  REQUIRE(want["answers"] != want["answers_norm"]);
  for (const auto& [key, metric] : {std::pair{"answers", kAcc}, {"answers_norm", kAccNorm}}) {
    nlohmann::json questions = want["questions"];
    for (size_t i = 0; i < questions.size(); ++i) {
      questions[i]["answer"] = want[key][i];
    }
    CHECK(Choices(lines_of(questions)).evaluate().at(metric) == 1.0);
  }
}

TEST_CASE("incomplete questions are skipped", "[choices]") {
  // Two batches of three samples: the first question has four choices, the next ones are cut off.
  const std::string lines = R"({"question": "1+1", "choices": ["2", "3", "4", "5"], "answer": 0})"
                            "\n"
                            R"({"question": "1+2", "choices": ["2", "3", "4", "5"], "answer": 1})"
                            "\n";
  const nlohmann::json both = Choices(lines).evaluate();
  CHECK(both.at(kAcc).is_number());
  const nlohmann::json first = Choices(lines).evaluate(R"({"eval": {"batches": 2}})");
  const double acc = first.at(kAcc);
  CHECK((acc == 0.0 || acc == 1.0));
  CHECK(Choices(lines).evaluate(R"({"eval": {"batches": 1}})").at(kAcc).is_null());
}

TEST_CASE("evaluation sets of another kind have no accuracy", "[choices]") {
  const Choices choices(lines_of(golden()["questions"]));
  const nlohmann::json record = choices.evaluate(R"({"data": {"eval": {"type": "token_rows",
      "options": {"samples": 9, "length": 8, "path": null, "prompt": null}}}})");
  CHECK(record.at("eval/loss").is_number());
  CHECK(record.at(kAcc).is_null());
}

TEST_CASE("bad questions are errors with file and line", "[choices]") {
  const auto refusal = [](const std::string& line, const std::string& options = "{}") {
    const std::string good = R"({"question": "1+1", "choices": ["2", "3"], "answer": 0})";
    return Choices(good + "\n\n" + line + "\n").refusal(options);
  };
  const auto says = [](const std::string& text) {
    return contains_text("questions.jsonl, line 3: " + text);
  };
  CHECK_THAT(refusal("{"), says("the line is not valid JSON in UTF-8, at byte 2"));
  CHECK_THAT(refusal("[]"), says("the line is array, expected an object"));
  CHECK_THAT(refusal("{\"question\": \"\xff\"}"), says("the line is not valid JSON in UTF-8"));
  CHECK_THAT(refusal(R"({"choices": ["1", "2"], "answer": 0})"),
             says("the key \"question\" is missing"));
  CHECK_THAT(refusal(R"({"question": 1, "choices": ["1", "2"], "answer": 0})"),
             says("\"question\" is number, expected a string"));
  CHECK_THAT(refusal(R"({"question": "1", "choices": ["1"], "answer": 0})"),
             says("\"choices\" is not a list of at least two texts"));
  CHECK_THAT(refusal(R"({"question": "1", "choices": ["1", ""], "answer": 0})"),
             says("choice 1 is not a text of at least one character"));
  CHECK_THAT(refusal(R"({"question": "1", "choices": ["1", "2", "1"], "answer": 0})"),
             says("choice 2 is equal to an earlier one"));
  CHECK_THAT(refusal(R"({"question": "1", "choices": ["1", "2"], "answer": 2})"),
             says("\"answer\" is 2, expected the index of a choice, from 0 to 1"));
  CHECK_THAT(refusal(R"({"question": "1", "choices": ["1", "2"], "answer": "1"})"),
             says("\"answer\" is \"1\", expected the index of a choice"));
  CHECK_THAT(refusal(R"({"question": "1", "choices": ["1234", "2"], "answer": 0})",
                     R"({"max_length": 4})"),
             says("a choice has 5 tokens, and with `max_length` 4 no token of the prompt remains"));
  CHECK_THAT(refusal("", R"({"bos": true})"),
             contains_text("`bos` is true, but the tokenizer has no token for the beginning"));
  CHECK_THAT(Choices("\n").refusal(), contains_text("questions.jsonl has no questions"));
  CHECK_THAT(Choices(lines_of(golden()["questions"])).refusal(R"({"path": "nowhere.jsonl"})"),
             contains_text("nowhere.jsonl"));
}

}  // namespace tenon
