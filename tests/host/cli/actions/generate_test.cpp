// SPDX-License-Identifier: Apache-2.0
#include "host/cli/all_actions.hpp"
#include "host/cli/parse_command_line.hpp"

#include "tests/host/cli/usage_failure.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a text is generated with the weights of a run, a checkpoint or a folder", "[cli]") {
  const CommandLine run = parse_command_line({"--generate", "--run-dir", "runs/a"});
  CHECK(run.action == &kGenerateAction);
  CHECK(run.generate == GenerateRequest{.run_dir = "runs/a"});
  const CommandLine all = parse_command_line({"--generate",
                                              "--from",
                                              "runs/a/checkpoints/1",
                                              "--prompt",
                                              "In",
                                              "--max-tokens",
                                              "7",
                                              "--temperature",
                                              "0.8",
                                              "--top-k",
                                              "40",
                                              "--top-p",
                                              "0.9",
                                              "--seed",
                                              "5"});
  CHECK(all.generate ==
        GenerateRequest{.from = "runs/a/checkpoints/1",
                        .prompt = "In",
                        .sampling = {.temperature = 0.8, .top_k = 40, .top_p = 0.9, .seed = 5},
                        .max_tokens = 7});
  const CommandLine folder =
      parse_command_line({"--generate", "--recipe", "r", "--import", "hf", "in"});
  CHECK(folder.recipe == "r");
  CHECK(folder.generate.weights == WeightsImportRequest{.format = "hf", .from = "in"});
}

TEST_CASE("a prompt may be a message of a chat", "[cli]") {
  const CommandLine chat = parse_command_line(
      {"--generate", "--run-dir", "a", "--chat", "--system", "S", "--chat-template", "t.jinja"});
  CHECK(chat.generate == GenerateRequest{.run_dir = "a",
                                         .is_chat = true,
                                         .system = "S",
                                         .chat_template = "t.jinja",
                                         .sampling = {.is_answer = true}});
  CHECK(parse_command_line({"--generate",
                            "--run-dir",
                            "a",
                            "--chat",
                            "--chat-template-kwargs",
                            R"({"enable_thinking": false})",
                            "--stop",
                            "\nUser:",
                            "--stop",
                            "###",
                            "--repetition-penalty",
                            "1.1"})
            .generate == GenerateRequest{.run_dir = "a",
                                         .is_chat = true,
                                         .template_variables = R"({"enable_thinking": false})",
                                         .sampling = {.repetition_penalty = 1.1,
                                                      .stop = {"\nUser:", "###"},
                                                      .is_answer = true}});
  CHECK_THAT(
      usage_failure({"--generate", "--run-dir", "a", "--chat", "--chat-template-kwargs", "[]"}),
      contains_text("--chat-template-kwargs: expected a JSON object"));
  CHECK_THAT(usage_failure({"--generate", "--run-dir", "a", "--stop", ""}),
             contains_text("--stop needs a value"));
  CHECK_THAT(usage_failure({"--generate", "--run-dir", "a", "--system", "S"}),
             contains_text("--system has no effect without --chat"));
  CHECK_THAT(usage_failure({"--generate", "--run-dir", "a", "--chat-template", "t"}),
             contains_text("--chat-template has no effect without --chat"));
}

TEST_CASE("a text without weights, and options without effect, are refused", "[cli]") {
  CHECK_THAT(usage_failure({"--generate"}), contains_text("--generate needs weights"));
  CHECK_THAT(usage_failure({"--generate", "--run-dir", "a", "--from", "b"}),
             contains_text("contradict each other"));
  CHECK_THAT(usage_failure({"--generate", "--import", "hf", "in"}), contains_text("--recipe FILE"));
  CHECK_THAT(usage_failure({"--generate", "--recipe", "r", "--import", "torch", "in"}),
             contains_text("--import: expected hf, found \"torch\""));
  CHECK_THAT(usage_failure({"--generate", "--run-dir", "a", "--top-k", "4"}),
             contains_text("--top-k has no effect without --temperature"));
  CHECK_THAT(usage_failure({"--generate", "--run-dir", "a", "--seed", "4"}),
             contains_text("--seed has no effect without --temperature"));
  CHECK_THAT(usage_failure({"--generate", "--run-dir", "a", "--temperature", "warm"}),
             contains_text("--temperature: expected a number from 0 to 1000, found \"warm\""));
  CHECK_THAT(
      usage_failure({"--generate", "--run-dir", "a", "--temperature", "1", "--top-p", "1.5"}),
      contains_text("--top-p: expected a probability"));
  CHECK_THAT(usage_failure({"--generate", "--run-dir", "a", "--max-tokens", "0"}),
             contains_text("--max-tokens: expected a number of tokens from 1"));
  CHECK_THAT(usage_failure({"--generate", "--run-dir", "a", "--set", "seed=2"}),
             contains_text("--set needs --recipe FILE"));
}

}  // namespace tenon
