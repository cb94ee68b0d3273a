// SPDX-License-Identifier: Apache-2.0
//
// The recipe key "kernels", and the choices that a run measures and keeps.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A desk with a text, a recipe of a small llama, whose products are large enough for a choice, and
// a cache of its own.
class KernelDesk {
 public:
  KernelDesk() {
    std::string text;
    for (int i = 0; i < 20000; ++i) {
      text += static_cast<char>('a' + i * 7 % 26);
    }
    folder_.write("text.txt", text);
  }

  // Runs into the folder `run`.
  SubprocessResult run(const std::string& run,
                       const json& kernels,
                       const std::vector<std::string>& more = {}) const {
    return run_patched(run, {{"kernels", kernels}}, more);
  }
  // The same with any change of the recipe.
  SubprocessResult run_patched(const std::string& run,
                               const json& patch,
                               const std::vector<std::string>& more = {},
                               int num_ranks = 1) const {
    json recipe = json::parse(R"({
      "name": "tiny", "threads": {"compute": 1},
      "model": {"type": "llama", "options": {"vocab_size": 256, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2}},
      "data": {"batch_size": 8, "train": {"type": "text",
        "options": {"path": "text.txt", "sequence_length": 64}}},
      "loss": {"type": "cross_entropy"},
      "optimizer": {"type": "adamw", "options": {"lr": 0.003}},
      "train": {"steps": 6}
    })");
    recipe.merge_patch(patch);
    folder_.write("recipe.json", recipe.dump());
    SubprocessOptions options;
    options.environment = {{"XDG_CACHE_HOME", (folder_.path() / "cache").string()}};
    return run_host(folder_.path() / "recipe.json", folder_.path() / run, num_ranks, more, options);
  }
  // The hash of the parameters after a run that must end well.
  std::string hash(const std::string& run_name,
                   const json& kernels,
                   const std::vector<std::string>& more = {}) const {
    return hash_patched(run_name, {{"kernels", kernels}}, more);
  }
  std::string hash_patched(const std::string& run_name,
                           const json& patch,
                           const std::vector<std::string>& more = {},
                           int num_ranks = 1) const {
    const SubprocessResult result = run_patched(run_name, patch, more, num_ranks);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    return parsed(run_name + "/summary.json").at("parameters_hash").get<std::string>();
  }
  // Runs half of the steps.
  void stop_halfway(const std::string& run_name, const json& patch, int num_ranks = 1) const {
    const SubprocessResult result =
        run_patched(run_name, patch, {"--set", "train.exit_after_steps=3"}, num_ranks);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 75);
  }
  json parsed(const std::string& file) const {
    return json::parse(file_text(folder_.path() / file));
  }
  std::string text_of(const std::string& file) const { return file_text(folder_.path() / file); }
  bool has(const std::string& file) const { return fs::exists(folder_.path() / file); }
  json kernels_of(const std::string& run_name) const {
    return parsed(run_name + "/kernels.json").at("kernels");
  }
  fs::path cache() const { return folder_.path() / "cache/tenon/kernels.json"; }
  void write_cache(const json& value) const {
    folder_.write("cache/tenon/kernels.json", value.dump());
  }

 private:
  ScratchFolder folder_;
};

// The answers of a cache, which knows one machine.
json& answers_in(json& cache) {
  REQUIRE(cache.at("machines").size() == 1);
  return cache["machines"].begin().value();
}

// Answers all questions of the user's cache with a kernel; with "mkl" those about products of which
// it is no candidate.
void answer_all(const KernelDesk& desk, const std::string& kernel) {
  json cache = json::parse(file_text(desk.cache()));
  for (const auto& [question, answer] : answers_in(cache).items()) {
    const bool is_candidate =
        kernel != "onednn_transposed" || question.starts_with("linear.grad_weight");
    answers_in(cache)[question] = is_candidate ? kernel : "mkl";
  }
  desk.write_cache(cache);
}

}  // namespace

TEST_CASE("a run writes its choices of kernels, and a later one makes the same", "[recipes]") {
  const KernelDesk desk;
  const std::string hash = desk.hash("first", "auto");
  const json kernels = desk.kernels_of("first");
  CHECK(kernels.size() >= 3);
  for (const auto& [question, kernel] : kernels.items()) {
    CAPTURE(question);
    CHECK(question.starts_with("linear."));
    CHECK((kernel == "mkl" || kernel == "onednn" || kernel == "onednn_transposed" ||
           kernel == "tenon"));
  }
  json cache = json::parse(file_text(desk.cache()));
  CHECK(answers_in(cache) == kernels);
  CHECK(desk.hash("second", "auto") == hash);
  CHECK(desk.kernels_of("second") == kernels);
}

TEST_CASE("the recipe chooses kernels", "[recipes]") {
  const KernelDesk desk;
  // The operators of a step, as a profile lists them.
  const auto operators = [&desk](const std::string& name, const json& kernels) {
    desk.hash(name, kernels, {"--profile", "steps=2..3"});
    CHECK_FALSE(desk.has(name + "/kernels.json"));
    return desk.text_of(name + "/profile.json");
  };
  constexpr char kOneDnn[] = "mkldnn::_linear_pointwise";
  constexpr char kAttention[] = "aten::scaled_dot_product_attention";
  const std::string mkl = operators("mkl", {{"linear", "mkl"}});
  CHECK_THAT(mkl, !Catch::Contains(kOneDnn) && !Catch::Contains(kAttention));
  CHECK_THAT(operators("onednn", {{"linear", "onednn"}}), Catch::Contains(kOneDnn));
  CHECK_THAT(operators("plain", "plain"), !Catch::Contains(kOneDnn) && Catch::Contains(kAttention));
  CHECK_FALSE(fs::exists(desk.cache()));

  const SubprocessResult word = desk.run("word", "fused");
  CHECK(word.exit_code == 3);
  CHECK_THAT(word.err, Catch::Contains("/kernels"));
  const SubprocessResult table = desk.run("table", {{"linear", "cublas"}});
  CHECK(table.exit_code == 3);
  CHECK_THAT(table.err, Catch::Contains("/kernels/linear") && Catch::Contains("onednn"));
}

TEST_CASE("a resumed run keeps the kernels of its checkpoint", "[recipes][.release]") {
  const KernelDesk desk;
  const std::string whole = desk.hash("whole", "auto");
  desk.stop_halfway("half", {{"kernels", "auto"}});
  // As if this machine now measured otherwise.
  json cache = json::parse(file_text(desk.cache()));
  for (json& kernel : answers_in(cache)) {
    kernel = kernel == "mkl" ? "onednn" : "mkl";
  }
  desk.write_cache(cache);
  CHECK(desk.hash("half", "auto", {"--resume", "auto"}) == whole);
  CHECK(desk.kernels_of("half") == desk.kernels_of("whole"));
  desk.hash("other", "auto");
  CHECK(desk.kernels_of("other") == answers_in(cache));
}

TEST_CASE("a run with forced kernels resumes with the bits of a run that never stopped",
          "[recipes][.release]") {
  const std::string kernels = GENERATE(R"("plain")",
                                       R"({"linear": "mkl"})",
                                       R"({"linear": "onednn"})",
                                       R"({"linear": "tenon"})",
                                       R"({"linear": "plain"})",
                                       R"({"attention": "plain"})",
                                       R"({"embedding": "plain"})",
                                       R"({"gated_mlp": "plain"})",
                                       R"({"rms_norm": "plain"})");
  CAPTURE(kernels);
  const KernelDesk desk;
  const json patch = {{"kernels", json::parse(kernels)}};
  const std::string whole = desk.hash_patched("whole", patch);
  desk.stop_halfway("half", patch);
  CHECK(desk.hash_patched("half", patch, {"--resume", "auto"}) == whole);
}

// Each kernel for products that can be measured as the fastest, also those without a word in
// recipes. The cache makes a run choose it.
TEST_CASE("a run with any measured kernels resumes with their bits", "[recipes][.release]") {
  const auto [precision, kernel, other] = GENERATE(
      table<std::string, std::string, std::string>({{"fp32", "mkl", "onednn"},
                                                    {"fp32", "onednn", "mkl"},
                                                    {"fp32", "onednn_transposed", "tenon"},
                                                    {"fp32", "tenon", "onednn_transposed"},
                                                    {"bf16_params", "native", "widened"},
                                                    {"bf16_params", "widened", "native"}}));
  CAPTURE(precision, kernel);
  const KernelDesk desk;
  const json patch = {{"kernels", "auto"}, {"train", {{"precision", precision}}}};
  desk.hash_patched("first", patch);
  answer_all(desk, kernel);
  const std::string whole = desk.hash_patched("whole", patch);
  const json chosen = desk.kernels_of("whole");
  CHECK(std::ranges::count(chosen, json(kernel)) > 0);
  desk.stop_halfway("half", patch);
  answer_all(desk, other);
  CHECK(desk.hash_patched("half", patch, {"--resume", "auto"}) == whole);
  CHECK(desk.kernels_of("half") == chosen);
  desk.hash_patched("other", patch);  // its bits may be the same on some processors
  CHECK(desk.kernels_of("other") != chosen);
}

TEST_CASE("two ranks with forced kernels have the losses of one, and resume with their bits",
          "[recipes][multi-rank][.release]") {
  const std::string kernels = GENERATE(R"("auto")",
                                       R"("plain")",
                                       R"({"linear": "mkl"})",
                                       R"({"linear": "onednn"})",
                                       R"({"linear": "tenon"})",
                                       R"({"attention": "plain", "embedding": "plain"})");
  CAPTURE(kernels);
  const KernelDesk desk;
  const auto losses = [&desk](const std::string& run_name) {
    std::vector<double> values;
    for (const json& record : metric_records(desk.text_of(run_name + "/metrics.jsonl"))) {
      values.push_back(record.at("loss"));
    }
    return values;
  };
  const json patch = {{"kernels", json::parse(kernels)},
                      {"train", {{"log_every", 1}, {"global_batch_size", 16}}}};
  desk.hash_patched("one", patch);
  const std::string whole = desk.hash_patched("whole", patch, {}, 2);
  const std::vector<double> expected = losses("one");
  const std::vector<double> found = losses("whole");
  REQUIRE(expected.size() == 6);
  REQUIRE(found.size() == 6);
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == Approx(expected[i]).epsilon(1e-4));
  }
  desk.stop_halfway("half", patch, 2);
  CHECK(desk.hash_patched("half", patch, {"--resume", "auto"}, 2) == whole);
}

// The decoder in C of docs/plugin-guide/operators-in-c.md has llama's names of parameters, so both
// start with the same values.
TEST_CASE("a decoder in C trains as llama does", "[recipes][.release]") {
  const KernelDesk desk;
  const auto losses = [&desk](const std::string& name, const json& model) {
    desk.hash_patched(name, {{"model", model}, {"train", {{"steps", 20}, {"log_every", 1}}}});
    std::vector<double> values;
    for (const json& record : metric_records(desk.text_of(name + "/metrics.jsonl"))) {
      values.push_back(record.at("loss"));
    }
    return values;
  };
  const std::vector<double> found = losses("in_c", {{"type", "c_decoder"}, {"options", nullptr}});
  const std::vector<double> expected =
      losses("llama",
             {{"options",
               {{"hidden_size", 128}, {"intermediate_size", 352}, {"num_attention_heads", 4}}}});
  REQUIRE(found.size() == 20);
  REQUIRE(expected.size() == 20);
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == Approx(expected[i]).epsilon(1e-4));  // angles differ in their last bits
  }
  CHECK(found.back() < 0.7 * found.front());
}

}  // namespace tenon
