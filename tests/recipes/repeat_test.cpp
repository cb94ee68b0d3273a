// SPDX-License-Identifier: Apache-2.0
//
// Runs that must be equal to the bit.
#include <csignal>
#include <memory>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Processes that compute without end, at most for a minute, until this goes away.
class BusyChildren {
 public:
  explicit BusyChildren(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        alarm(60);  // whatever becomes of the test
        const volatile bool is_wanted = true;
        while (is_wanted) {
        }
      }
      children_.push_back(child);
    }
  }
  ~BusyChildren() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  BusyChildren(const BusyChildren&) = delete;
  BusyChildren& operator=(const BusyChildren&) = delete;

 private:
  std::vector<pid_t> children_;
};

// A llama with dropout on made text, small enough for a test.
std::string llama_recipe(const std::string& patch, const std::filesystem::path& text) {
  nlohmann::json recipe = nlohmann::json::parse(R"({
    "name": "tiny", "threads": {"compute": 2},
    "model": {"type": "llama", "options": {"vocab_size": 256, "hidden_size": 32, "intermediate_size": 48,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "dropout": 0.1}},
    "data": {"batch_size": 4, "train": {"type": "text", "options": {"sequence_length": 16}}},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "adamw", "options": {"lr": 0.003}},
    "lr_scheduler": {"type": "cosine", "options": {"warmup_steps": 2}},
    "train": {"steps": 8, "log_every": 1, "clip_grad_norm": 1.0, "gradient_accumulation": 2}
  })");
  recipe["data"]["train"]["options"]["path"] = text.string();
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump();
}

std::vector<nlohmann::json> train(const std::string& patch) {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    text += static_cast<char>('a' + (i * i + i / 7) % 26);
  }
  const HostRun run(llama_recipe(patch, folder.write("text.txt", text)));
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  REQUIRE(run.metrics().size() == 8);
  return run.metrics();
}

}  // namespace

TEST_CASE("the same recipe gives the same bits, run after run", "[recipes]") {
  const auto first = train("{}");
  CHECK(first == train("{}"));
  CHECK(first != train(R"({"seed": 2})"));
}

TEST_CASE("recompute changes no bit, with dropout too", "[recipes][.release]") {
  CHECK(train("{}") == train(R"({"train": {"recompute": "blocks"}})"));
}

TEST_CASE("the number of loader threads changes no bit", "[recipes][.release]") {
  CHECK(train("{}") == train(R"({"data": {"loader_threads": 3, "prefetch": 1}})"));
}

TEST_CASE("the frozen recipe of a run gives the same run", "[recipes]") {
  const HostRun first(small_recipe());
  REQUIRE(first.result().exit_code == 0);
  const HostRun second(first.file("recipe.json"));
  INFO(second.result().err);
  REQUIRE(second.result().exit_code == 0);
  CHECK(first.metrics() == second.metrics());
  CHECK(first.file("recipe.json") == second.file("recipe.json"));
}

// Deterministic mode, as it is promised: the same bits whatever else the machine does, and however
// the loader's threads come to run.
TEST_CASE("two runs beside other load end with the same bits", "[recipes][.release]") {
  const auto run_of = [](int loader_threads, bool is_loaded) {
    const ScratchFolder folder;
    std::string text;
    for (int i = 0; i < 3000; ++i) {
      text += static_cast<char>('a' + (i * i + i / 7) % 26);
    }
    nlohmann::json recipe = nlohmann::json::parse(llama_recipe(
        R"({"train": {"steps": 20, "precision": "fp32"}})", folder.write("text.txt", text)));
    recipe["data"]["loader_threads"] = loader_threads;
    recipe["deterministic"] = true;
    const std::unique_ptr<BusyChildren> load =
        is_loaded ? std::make_unique<BusyChildren>(3) : nullptr;
    const HostRun run(recipe.dump());
    INFO(run.result().out << run.result().err);
    REQUIRE(run.result().exit_code == 0);
    return std::pair(run.summary()["parameters_hash"].get<std::string>(), run.metrics());
  };
  const auto [quiet_hash, quiet_lines] = run_of(1, false);
  CHECK(quiet_hash.size() == 16);
  REQUIRE(quiet_lines.size() == 20);
  for (const int loader_threads : {1, 3}) {
    const auto [hash, lines] = run_of(loader_threads, true);
    INFO(loader_threads << " loader threads");
    CHECK(hash == quiet_hash);
    CHECK(lines == quiet_lines);
  }
}

}  // namespace tenon
