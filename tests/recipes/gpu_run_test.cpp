// SPDX-License-Identifier: Apache-2.0
//
// Runs on a GPU, by the program. Without one, on the module that stands in for CUDA: what is
// uploaded, waited for, measured and reported is as on a GPU, the kernels are the CPU's. So its
// numbers must be those of the CPU, to the bit.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

fs::path fake_gpu() {
  return build_dir() / "tests/fake_gpu";
}

HostRun run_on_fake(const std::string& recipe,
                    const std::vector<std::string>& arguments = {"--device", "cuda"},
                    std::map<std::string, std::string> environment = {}) {
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  environment["LD_LIBRARY_PATH"] =
      (fake_gpu() / "driver").string() + (path != nullptr ? ":" + std::string(path) : "");
  return HostRun(recipe, arguments, {.environment = environment}, fake_gpu() / "bin/host");
}

// Without the figures that a run on the CPU has not.
std::vector<nlohmann::json> without_memory(std::vector<nlohmann::json> records) {
  for (nlohmann::json& record : records) {
    for (const char* name : {"gpu/allocated_bytes", "gpu/reserved_bytes", "gpu/peak_bytes"}) {
      record.erase(name);
    }
  }
  return records;
}

// What a machine without GPUs lacks; "" where a run on a GPU is possible.
std::string missing_for_gpu() {
  const HostRun run(small_recipe(), {"--device", "cuda", "--validate"});
  return run.result().exit_code == 0 ? "" : run.result().err;
}

}  // namespace

TEST_CASE("without a driver a GPU is refused before a run folder is made", "[recipes][device]") {
  if (missing_for_gpu().empty()) {
    TENON_SKIP("this machine has a GPU");
  }
  const HostRun run(small_recipe(), {"--device", "cuda"});
  CHECK(run.result().exit_code == 3);
  CHECK_THAT(run.result().err, contains_text("[device.unavailable]"));
  CHECK_THAT(run.result().err, contains_text("--device cpu"));
  CHECK_FALSE(fs::exists(run.run_dir()));
  const HostRun automatic(small_recipe(), {"--device", "auto"});
  CHECK(automatic.result().exit_code == 0);
  CHECK(HostRun(small_recipe()).metrics() == automatic.metrics());
}

TEST_CASE("a device that is none is a mistake of the command line or the recipe", "[recipes]") {
  const HostRun line(small_recipe(), {"--device", "tpu"});
  CHECK(line.result().exit_code == 2);
  CHECK_THAT(line.result().err,
             contains_text("--device: expected cpu, cuda, cuda:N or auto, found \"tpu\""));
  const HostRun recipe(small_recipe(R"({"device": "tpu"})"));
  CHECK(recipe.result().exit_code == 3);
  CHECK_THAT(recipe.result().err, contains_text("/device"));
}

TEST_CASE("a run on the stand-in for a GPU has the numbers of the CPU", "[recipes][device]") {
  const std::string recipe = small_recipe(R"({
    "train": {"steps": 9, "log_every": 4, "gradient_accumulation": 2},
    "data": {"eval": {"type": "windows", "options": {"samples": 8}}},
    "metrics": [{"type": "accuracy"}],
    "eval": {"every_steps": 3}})");
  const HostRun on_cpu(recipe);
  const ScratchFolder folder;
  const std::string report = (folder.path() / "report").string();
  const HostRun on_gpu = run_on_fake(recipe, {"--device", "cuda:0"}, {{"FAKE_GPU_REPORT", report}});
  INFO(on_gpu.result().out << on_gpu.result().err);
  REQUIRE(on_cpu.result().exit_code == 0);
  REQUIRE(on_gpu.result().exit_code == 0);
  CHECK(without_memory(on_gpu.metrics()) == on_cpu.metrics());
  CHECK_THAT(on_gpu.result().out, contains_text("Fake GPU, 1 GiB"));
  CHECK_THAT(on_gpu.summary()["device"].get<std::string>(), contains_text("Fake GPU, 1 GiB"));
  CHECK_THAT(on_gpu.file("recipe.json"), contains_text("\"device\": \"cuda:0\""));
  const nlohmann::json record = on_gpu.metrics().front();
  CHECK(record["gpu/allocated_bytes"] == 600 << 20);
  CHECK(record["gpu/reserved_bytes"] == 800 << 20);
  CHECK(record["gpu/peak_bytes"] == 700 << 20);
  std::ifstream file(report);
  std::string text;
  std::getline(file, text);
  CHECK_THAT(text, contains_text(" uploads, 0 waits"));
}

// A norm that stays on the device is added up in another order.
TEST_CASE("clipping by a norm that nobody waits for is clipping", "[recipes][device]") {
  const std::string recipe =
      small_recipe(R"({"train": {"steps": 12, "log_every": 1, "clip_grad_norm": 0.1}})");
  const auto on_cpu = HostRun(recipe).metrics();
  const auto on_gpu = run_on_fake(recipe).metrics();
  REQUIRE(on_gpu.size() == on_cpu.size());
  REQUIRE(on_cpu.size() == 12);
  for (size_t i = 0; i < on_cpu.size(); ++i) {
    for (const char* name : {"loss", "grad_norm"}) {
      CHECK(on_gpu[i][name].get<double>() == Approx(on_cpu[i][name].get<double>()).epsilon(1e-6));
    }
  }
}

TEST_CASE("an update that is not finite is left out without waiting", "[recipes][device]") {
  const std::string recipe = small_recipe(R"({
    "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
    "hooks": [{"type": "plant_at", "options": {"first_step": 12, "event": "after_backward",
                                               "into": "gradients", "name": "mlp.0.weight"}}],
    "train": {"steps": 20, "log_every": 4}})");
  const HostRun on_cpu(recipe);
  const HostRun on_gpu = run_on_fake(recipe);
  INFO(on_gpu.result().err << on_cpu.result().err);
  REQUIRE(on_cpu.result().exit_code == 0);
  REQUIRE(on_gpu.result().exit_code == 0);
  CHECK(on_gpu.summary()["updates"] == 19);
  for (const char* metric : {"steps", "last_step", "longest_row"}) {
    CHECK(on_gpu.summary()["non_finite"][metric] == on_cpu.summary()["non_finite"][metric]);
  }
  CHECK(without_memory(on_gpu.metrics()) == on_cpu.metrics());
  CHECK_THAT(on_gpu.result().err + on_gpu.result().out, contains_text("mlp.0.weight"));
}

TEST_CASE("fp16 trains under a loss scale, which a step that overflows halves",
          "[recipes][device]") {
  nlohmann::json recipe = nlohmann::json::parse(small_recipe(R"({
    "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
    "train": {"steps": 30, "log_every": 5}})"));
  const HostRun wide(recipe.dump());
  recipe["train"]["precision"] = "fp16_autocast";
  const HostRun narrow = run_on_fake(recipe.dump());
  INFO(narrow.result().err);
  REQUIRE(narrow.result().exit_code == 0);
  const nlohmann::json last = narrow.metrics().back();
  CHECK(last["loss_scale"] == 65536);
  CHECK(last["loss"].get<double>() ==
        Approx(wide.metrics().back()["loss"].get<double>()).epsilon(0.01));
  CHECK(last["loss"] != wide.metrics().back()["loss"]);
  CHECK(narrow.summary()["updates"] == 30);

  // In the first ten steps, where an event that is not finite would end the run.
  recipe["hooks"] = nlohmann::json::parse(R"([{"type": "plant_at", "options": {"first_step": 3,
    "event": "after_backward", "into": "gradients", "name": "mlp.0.weight"}}])");
  const HostRun overflown = run_on_fake(recipe.dump());
  INFO(overflown.result().err);
  REQUIRE(overflown.result().exit_code == 0);
  CHECK(overflown.metrics().back()["loss_scale"] == 32768);
  CHECK(overflown.summary()["updates"] == 29);
  CHECK(overflown.summary()["non_finite"] == narrow.summary()["non_finite"]);
  recipe["device"] = "cpu";
  CHECK_THAT(HostRun(recipe.dump()).result().err, contains_text("[precision.needs_gpu]"));
}

TEST_CASE("auto takes a GPU that is there", "[recipes][device]") {
  const HostRun run = run_on_fake(small_recipe(), {"--device", "auto"});
  REQUIRE(run.result().exit_code == 0);
  CHECK_THAT(run.result().out, contains_text("Fake GPU"));
  const HostRun broken =
      run_on_fake(small_recipe(), {"--device", "auto"}, {{"FAKE_GPU_OPEN", "it is on fire"}});
  REQUIRE(broken.result().exit_code == 0);
  CHECK_THAT(broken.result().err + broken.result().out, contains_text("it is on fire"));
}

TEST_CASE("each batch is uploaded once, and the next one ahead of its step", "[recipes][device]") {
  const ScratchFolder folder;
  const std::string report = (folder.path() / "report").string();
  const HostRun run = run_on_fake(small_recipe(R"({"train": {"steps": 5}})"),
                                  {"--device", "cuda"},
                                  {{"FAKE_GPU_REPORT", report}});
  REQUIRE(run.result().exit_code == 0);
  std::ifstream file(report);
  std::string text;
  std::getline(file, text);
  // The sixth was on its way when the run ended.
  CHECK(text == "6 uploads, 0 waits");
}

TEST_CASE("a run on a GPU goes back, however late it hears of what went wrong",
          "[recipes][device]") {
  // Step 8 is not finite. The run hears of it when it saves, or when it is about to end.
  const std::string patch = R"({
    "train": {"log_every": 50, "global_batch_size": 4, "non_finite": {"policy": "stop"}},
    "data": {"shuffle": false, "train": {"options": {"samples": 80}}},
    "optimizer": {"type": "adamw", "options": {"lr": 0.02}},
    "checkpoint": {"on_spike": "roll_back"}})";
  struct Case {
    const char* patch;
    int heard_at;
  };
  for (const Case& one :
       {Case{R"({"train": {"steps": 12}, "checkpoint": {"every_steps": 3}})", 10},
        Case{R"({"train": {"steps": 9}, "checkpoint": {"every_steps": 6}})", 9}}) {
    INFO(one.patch);
    nlohmann::json recipe = nlohmann::json::parse(small_recipe(patch));
    recipe.merge_patch(nlohmann::json::parse(one.patch));
    nlohmann::json oracle = recipe;
    auto& options = recipe["data"]["train"]["options"];
    options["spoilt_first"] = 28;
    options["spoilt_last"] = 31;
    oracle["data"]["train"]["options"]["windows"] = {
        {{"size", 24}}, {{"size", 4 * (one.heard_at - 6)}, {"skip", true}}, {{"size", 40}}};
    const HostRun back = run_on_fake(recipe.dump());
    INFO(back.result().out << back.result().err);
    REQUIRE(back.result().exit_code == 0);
    const nlohmann::json summary = back.summary();
    REQUIRE(summary["roll_backs"].size() == 1);
    CHECK(summary["roll_backs"][0]["step"] == one.heard_at);
    CHECK(summary["roll_backs"][0]["to"] == 6);
    const HostRun never(oracle.dump());
    REQUIRE(never.result().exit_code == 0);
    for (const char* const key : {"parameters_hash", "steps", "updates", "samples"}) {
      INFO(key);
      CHECK(summary[key] == never.summary()[key]);
    }
  }
}

TEST_CASE("a GPU without memory ends the run with what held how much", "[recipes][device]") {
  const HostRun run = run_on_fake(small_recipe(R"({"train": {"steps": 9}})"),
                                  {"--device", "cuda"},
                                  {{"FAKE_GPU_UPLOADS", "4"}});
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err, contains_text("[run.out_of_memory]"));
  const nlohmann::json summary = run.summary();
  CHECK(summary["error_id"] == "run.out_of_memory");
  const std::string reason = summary["reason"];
  for (const char* part : {"Of the GPU's 1.00 GiB, when 3.0 MiB more were asked for",
                           "tensors held 600.0 MiB",
                           "parameters ",
                           "gradients ",
                           "optimizer state ",
                           "batches ",
                           "activations and all else ",
                           "the allocator kept 200.0 MiB"}) {
    CHECK_THAT(reason, contains_text(part));
  }
}

TEST_CASE("a GPU trains to the loss of the CPU", "[recipes][gpu]") {
  const std::string missing = missing_for_gpu();
  if (!missing.empty()) {
    TENON_SKIP(missing);
  }
  const std::string recipe = small_recipe(R"({"train": {"steps": 20, "clip_grad_norm": 1.0}})");
  const auto on_cpu = HostRun(recipe).metrics();
  const auto on_gpu = HostRun(recipe, {"--device", "cuda"}).metrics();
  const auto again = HostRun(recipe, {"--device", "cuda"}).metrics();
  REQUIRE(on_gpu.size() == on_cpu.size());
  for (size_t i = 0; i < on_cpu.size(); ++i) {
    CHECK(on_gpu[i]["loss"].get<double>() == Approx(on_cpu[i]["loss"].get<double>()).epsilon(1e-4));
    CHECK(on_gpu[i]["loss"] == again[i]["loss"]);  // deterministic: to the bit
  }
}

}  // namespace tenon
