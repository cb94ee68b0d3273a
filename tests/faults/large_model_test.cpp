// SPDX-License-Identifier: Apache-2.0
//
// Models that no machine has memory for: they are checked and planned in the memory of a small one,
// and a run of them ends before it allocates.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

// Far below the models of these tests, and far above the start of the program with sanitizers.
constexpr std::uint64_t kSmall = std::uint64_t{3} << 29;

// Runs one action on a recipe.
SubprocessResult acted(const std::string& recipe,
                       const std::vector<std::string>& action,
                       const SubprocessOptions& options = {}) {
  const ScratchFolder folder;
  std::vector<std::string> words = {
      "--recipe", folder.write("recipe.json", recipe).string(), "--device", "cpu"};
  words.insert(words.end(), action.begin(), action.end());
  return run_host(words, options);
}

void check_in_little_memory(const std::string& recipe, const std::vector<std::string>& action) {
  const SubprocessResult result = acted(recipe, action);
  INFO(action.front() << "\n" << result.err);
  CHECK(result.exit_code == 0);
  INFO(result.peak_bytes << " bytes");
  CHECK(result.peak_bytes < kSmall);
}

// A decoder with small layers, of which the test sets the number.
std::string decoder(const std::string& layers, const std::string& text_file) {
  return small_recipe(R"({"model": {"type": "llama", "options": {"in_features": null,
    "hidden": null, "out_features": null, "vocab_size": 256, "hidden_size": 8,
    "intermediate_size": 8, "num_attention_heads": 2, "num_hidden_layers": )" +
                      layers + R"(}}, "data": {"train": {"type": "text",
    "options": {"samples": null, "path": ")" +
                      text_file + R"(", "sequence_length": 8}}}})");
}

// 5.2 GiB of parameters.
const char* const kWide = R"({"model": {"options": {"hidden": [200000000]}}})";
// 2^42 weights: 16 TiB.
const char* const kHuge = R"({"model": {"options": {"hidden": [2097152, 2097152]}}})";

}  // namespace

TEST_CASE("a large model of modules is validated and planned without its memory", "[faults]") {
  check_in_little_memory(small_recipe(kWide), {"--validate"});
  check_in_little_memory(small_recipe(kWide), {"--plan", "1"});
  check_in_little_memory(small_recipe(kHuge), {"--validate"});
  check_in_little_memory(small_recipe(kHuge), {"--plan", "8", "--memory", "80GiB"});
}

TEST_CASE("a model with the most layers is validated and planned without its memory", "[faults]") {
  const ScratchFolder folder;
  const std::string text = folder.write("text.txt", std::string(1000, 'a')).string();
  check_in_little_memory(decoder("10000", text), {"--validate"});
  check_in_little_memory(decoder("10000", text), {"--plan", "64"});
}

TEST_CASE("a number of layers that no model has is refused at once", "[faults]") {
  const ScratchFolder folder;
  const std::string text = folder.write("text.txt", std::string(1000, 'a')).string();
  const SubprocessResult result = acted(decoder("9007199254740992", text), {"--validate"});
  INFO(result.err);
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, contains_text("num_hidden_layers"));
  CHECK_THAT(result.err, contains_text("10000"));
}

TEST_CASE("a run whose model does not fit is refused before it allocates", "[faults]") {
  const HostRun run(small_recipe(kHuge), {"--device", "cpu"});
  INFO(run.result().err);
  CHECK(run.result().exit_code == 3);
  CHECK_THAT(run.result().err, contains_text("[run.too_large]"));
  CHECK_THAT(run.result().err, contains_text("parameters 16384."));
  CHECK_THAT(run.result().err, contains_text("available; shard it over ranks"));
  CHECK_FALSE(std::filesystem::exists(run.run_dir()));
  CHECK(run.result().peak_bytes < kSmall);
}

TEST_CASE("ranks of one machine are refused together if their model does not fit", "[faults]") {
  const HostRun run(small_recipe(kHuge), {"--device", "cpu", "--launch", "2"});
  INFO(run.result().err);
  CHECK(run.result().exit_code == 3);
  CHECK_THAT(run.result().err, contains_text("[run.too_large]"));
  CHECK_THAT(run.result().err, contains_text("for each of the 2 ranks of this machine"));
  CHECK_FALSE(std::filesystem::exists(run.run_dir()));
}

TEST_CASE("an ulimit below the size of the model is named before the run allocates", "[faults]") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  TENON_SKIP("the sanitizers need terabytes of addresses themselves");
#endif
  const HostRun run(
      small_recipe(kWide), {"--device", "cpu"}, {.memory_limit = std::uint64_t{8} << 30});
  INFO(run.result().err);
  CHECK(run.result().exit_code == 3);
  CHECK_THAT(run.result().err, contains_text("[run.too_large]"));
  CHECK_THAT(run.result().err, contains_text("ulimit -v has "));
  CHECK(run.result().peak_bytes < kSmall);
}

}  // namespace tenon
