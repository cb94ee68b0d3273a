// SPDX-License-Identifier: Apache-2.0
//
// --plan as a user gives it: figures of a model whose size is known, and what is refused.
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

SubprocessResult plan(const std::string& ranks, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {host_program().string(),
                                        "--plan",
                                        ranks,
                                        "--recipe",
                                        (source_dir() / "recipes/llama-8b.json").string(),
                                        "--plugin-dir",
                                        (build_dir() / "plugins").string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_subprocess(arguments, {});
}

nlohmann::json plan_json(const std::string& ranks, std::vector<std::string> more = {}) {
  more.emplace_back("--json");
  const SubprocessResult result = plan(ranks, std::move(more));
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return nlohmann::json::parse(result.out);
}

// Of Llama 3 8B: embedding and head, and in each of 32 layers two norms, q and o, k and v of 8
// heads of 128, and three matrices of the feed-forward layer; then the last norm.
constexpr int64_t kHead = int64_t{128'256} * 4096;
constexpr int64_t kAttention = 4096 + 2 * 4096 * 4096 + 2 * int64_t{1024} * 4096;
constexpr int64_t kFeedForward = 4096 + 3 * int64_t{4096} * 14'336;
constexpr int64_t kLayer = kAttention + kFeedForward;
constexpr int64_t kAll = 2 * kHead + 32 * kLayer + 4096;
static_assert(kAll == 8'030'261'248);

}  // namespace

TEST_CASE("the plan of an 8-billion-parameter model has the figures that theory gives", "[cli]") {
  const nlohmann::json json = plan_json("1024", {"--memory", "80GiB"});
  CHECK(json["ranks"] == 1024);
  CHECK(json["parameters"]["total"] == kAll);
  CHECK(json["parameters"]["trainable"] == kAll);
  CHECK(json["step"]["tokens"] == 1024 * 8192);
  REQUIRE(json["blocks"].size() == 4);
  CHECK(json["blocks"][0]["parameters"] == kHead);
  CHECK(json["blocks"][1]["count"] == 32);
  CHECK(json["blocks"][1]["parameters"] == kAttention);
  CHECK(json["blocks"][1]["source"] == "declared");
  CHECK(json["blocks"][2]["count"] == 32);
  CHECK(json["blocks"][2]["parameters"] == kFeedForward);
  // Two operations a weight and position, and four a feature and pair of positions in attention.
  CHECK(json["blocks"][1]["forward_flops"] ==
        2.0 * 8192 * static_cast<double>(kAttention - 4096) + 2.0 * 8192 * 8193 * 4096);
  CHECK(json["blocks"][2]["forward_flops"] ==
        2.0 * 8192 * static_cast<double>(kFeedForward - 4096));
  CHECK(json["blocks"][3]["forward_flops"] == 2.0 * 8192 * static_cast<double>(kHead));

  // Each of the 1024 slices is a multiple of a chunk of 1024 elements (decision 0080).
  constexpr int64_t kUnit = int64_t{1024} * 1024;
  const auto up = [](int64_t n) { return (n + kUnit - 1) / kUnit * kUnit; };
  const int64_t padded = up(kHead) + 32 * up(kLayer) + up(kHead + 4096);
  const nlohmann::json& memory = json["plan"]["memory"];
  CHECK(json["parameters"]["per_rank"] == padded / 1024);
  CHECK(memory["parameters"] == padded / 1024 * 4);
  CHECK(memory["gradients"] == padded / 1024 * 4);
  CHECK(memory["optimizer"] == padded / 1024 * 8);
  CHECK(json["fits"] == true);
  CHECK(json["suggestion"].is_null());

  // Gathered as bf16, the head once; gradients travel as fp32.
  const nlohmann::json& traffic = json["plan"]["traffic"];
  const int64_t head = up(kHead + 4096);
  CHECK(traffic["all_gather"]["sent"] == (2 * padded - head) / 1024 * 1023 * 2);
  CHECK(traffic["reduce_scatter"]["sent"] == padded / 1024 * 1023 * 4);
  CHECK(traffic["all_reduce"]["sent"] == 0);
  // One rank in eight is the last of its node.
  CHECK(traffic["reduce_scatter"]["between_nodes"] == padded / 1024 * 1023 * 4 / 8);
  CHECK(json["plan"]["seconds"]["step"] > json["plan"]["seconds"]["compute"]);
}

TEST_CASE("a plan that does not fit says what is largest and what would fit", "[cli]") {
  const std::vector<std::string> replicated = {"--set",
                                               "parallel.shard=1",
                                               "--set",
                                               "parallel.replicate=-1",
                                               "--set",
                                               "train.recompute=none",
                                               "--memory",
                                               "80GiB"};
  const SubprocessResult result = plan("64", replicated);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, contains_text("WARNING: does not fit: each rank has 80.0 GiB"));
  CHECK_THAT(result.out, contains_text("The largest part is optimizer state"));
  CHECK_THAT(result.out, contains_text("the fastest configuration that fits: replicate "));
  CHECK_THAT(result.out, contains_text("--set parallel.shard="));

  const nlohmann::json json = plan_json("64", replicated);
  CHECK(json["fits"] == false);
  const nlohmann::json& best = json["suggestion"];
  REQUIRE(best.is_object());
  CHECK(best["memory"]["sum"] <= int64_t{80} << 30);
  // What is suggested is what a plan of it says.
  const nlohmann::json again = plan_json("64",
                                         {"--set",
                                          "parallel.shard=" + best["shard"].dump(),
                                          "--set",
                                          "parallel.replicate=" + best["replicate"].dump(),
                                          "--set",
                                          "parallel.stage=" + best["stage"].dump(),
                                          "--set",
                                          "parallel.offload=" + best["offload"].dump(),
                                          "--set",
                                          "train.recompute=" + best["recompute"].get<std::string>(),
                                          "--memory",
                                          "80GiB"});
  CHECK(again["plan"] == best);
  CHECK(again["fits"] == true);

  const SubprocessResult none = plan("2", {"--memory", "1GiB"});
  CHECK_THAT(none.out, contains_text("no configuration fits on 2 ranks"));
}

TEST_CASE("ranks that are no product of the mesh are refused, and so is what is no number",
          "[cli]") {
  const SubprocessResult odd = plan("10", {"--set", "parallel.replicate=4"});
  CHECK(odd.exit_code == 3);
  CHECK_THAT(odd.err, contains_text("[distributed.bad_mesh]"));
  for (const char* const ranks : {"0", "-1", "10001", "many"}) {
    CAPTURE(ranks);
    const SubprocessResult refused = plan(ranks);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, contains_text("a number of ranks from 1 to 10000"));
  }
  CHECK(plan("10000", {"--quiet"}).exit_code == 2);
}

TEST_CASE("a plan prints the program of a rank, as text only", "[cli]") {
  const SubprocessResult two = plan("2", {"--program"});
  INFO(two.err);
  REQUIRE(two.exit_code == 0);
  CHECK_THAT(two.out, contains_text("for a microbatch (ranks 2, replicate 1, shard 2, stage 3)"));
  // The layer after the first is gathered while the first one computes.
  const size_t gather = two.out.find("gather         layers.1.attention");
  const size_t forward = two.out.find("forward        layers.0.attention");
  const size_t backward = two.out.find("\n-- backward\n");
  CHECK(gather < forward);
  CHECK(forward < backward);
  CHECK(backward < two.out.find("reduce         layers.0.attention"));
  // Bytes that the rank holds, and those that it sends: half of a layer of 218,112,000 elements.
  const std::string line = two.out.substr(gather, two.out.find('\n', gather) - gather);
  CHECK_THAT(line, contains_text(" GiB "));
  CHECK_THAT(line, contains_text("sends 208.0 MiB"));

  const SubprocessResult alone = plan("1", {"--program", "--set", "/parallel/stage=3"});
  REQUIRE(alone.exit_code == 0);
  CHECK_THAT(alone.out, !contains_text("gather "));
  for (const char* const other : {"--json", "--longest"}) {
    const SubprocessResult both = plan("2", {"--program", other, "--memory", "80GiB"});
    CHECK(both.exit_code != 0);
    CHECK_THAT(both.err, contains_text(std::string("remove ") + other));
  }
}

TEST_CASE("the global batch fixes the microbatches of a plan, or is refused", "[cli]") {
  CHECK(plan_json("256", {"--set", "train.global_batch_size=1024"})["step"]["microbatches"] == 4);
  const SubprocessResult refused = plan("256", {"--set", "train.global_batch_size=1000"});
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err, contains_text("[recipe.indivisible]"));
}

}  // namespace tenon
