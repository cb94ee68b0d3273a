// SPDX-License-Identifier: Apache-2.0
//
// What it takes to save and to load a large state: with "stream" no second copy of it is made, a
// run that resumes makes none either, and what is saved is the same.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

// Nearly each id is another one: 20480 rows of 12 KiB, of four tables.
std::string large_recipe(const std::string& patch) {
  return patched(R"({
    "name": "large", "threads": {"compute": 1},
    "model": {"type": "deepfm", "options": {"categorical": ["c0..c3"], "dim": 1024, "hidden": [8],
                                            "first_order": false}},
    "data": {"batch_size": 128, "train": {"type": "criteo_like", "options": {
      "samples": 6400, "categorical": 4, "dense": 0, "num_ids": 1000000000,
      "exponents": [0.1, 0.1]}}},
    "loss": {"type": "bce_with_logits", "inputs": {"labels": "label"}},
    "tables": {"*": {"optimizer": {"type": "adam", "options": {"lr": 0.05}}}},
    "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
    "train": {"steps": 40, "log_every": 20},
    "checkpoint": {"keep_last": 0}})",
                 patch);
}

std::string newest_checkpoint(const HostRun& run) {
  std::vector<std::string> names = names_in(run.run_dir() / "checkpoints");
  std::erase(names, "latest");
  REQUIRE(!names.empty());
  return (run.run_dir() / "checkpoints" / names.back()).string();
}

// 4.3 M parameters, of which no layer has more than a quarter.
std::string wide_recipe(const std::string& patch) {
  return patched(small_recipe(R"({
    "model": {"options": {"hidden": [1024, 1024, 1024, 1024, 1024]}},
    "optimizer": {"type": "adamw", "options": {"lr": 0.001, "betas": [0.9, 0.99]}},
    "train": {"steps": 4}})"),
                 patch);
}

uint64_t bytes_of(const std::string& checkpoint) {
  return std::filesystem::file_size(checkpoint + "/rank-0-of-1.safetensors");
}

}  // namespace

TEST_CASE("large tables are saved and loaded without a second copy of them", "[recipes]") {
  const std::string kStream = R"({"checkpoint": {"staging": "stream"}})";
  const HostRun without(large_recipe("{}"), {"--set", "checkpoint=null"});
  const HostRun copied(large_recipe("{}"));
  const HostRun streamed(large_recipe(kStream));
  for (const HostRun* const run : {&without, &copied, &streamed}) {
    INFO(run->result().out << run->result().err);
    REQUIRE(run->result().exit_code == 0);
    CHECK(run->summary()["parameters_hash"] == without.summary()["parameters_hash"]);
  }
  const std::string checkpoint = newest_checkpoint(streamed);
  const uint64_t size = bytes_of(checkpoint);
  CHECK(size > uint64_t{200} << 20);
  const uint64_t least = without.result().peak_bytes;
  const uint64_t most = copied.result().peak_bytes;
  CAPTURE(size, least, most, streamed.result().peak_bytes);
  CHECK(most > least + size * 8 / 10);                                 // or this would show nothing
  CHECK(streamed.result().peak_bytes < least + (uint64_t{64} << 20));  // some chunks, and threads

  const SubprocessResult difference =
      run_subprocess({host_program().string(), "--diff", newest_checkpoint(copied), checkpoint});
  INFO(difference.out << difference.err);
  CHECK_THAT(difference.out, contains_text(" are equal, 0 differ\n"));

  // One that goes on reads rows straight to where they belong.
  const HostRun resumed(large_recipe(patched(kStream, R"({"train": {"steps": 41}})")),
                        {"--resume", checkpoint});
  INFO(resumed.result().out << resumed.result().err);
  REQUIRE(resumed.result().exit_code == 0);
  CHECK(resumed.summary()["resumed"]["step"] == 40);
  CAPTURE(resumed.result().peak_bytes);
  CHECK(resumed.result().peak_bytes < least + (uint64_t{96} << 20));
  const HostRun longer(large_recipe(R"({"train": {"steps": 41}})"), {"--set", "checkpoint=null"});
  CHECK(resumed.summary()["parameters_hash"] == longer.summary()["parameters_hash"]);
}

TEST_CASE("a run that resumes holds no more tensors than the same run from its start",
          "[recipes]") {
  for (const char* const staging : {"copy", "stream"}) {
    CAPTURE(staging);
    const std::string saving =
        std::string(R"({"checkpoint": {"staging": ")") + staging + R"(", "every_steps": 2}})";
    const HostRun whole(wide_recipe(saving));
    INFO(whole.result().out << whole.result().err);
    REQUIRE(whole.result().exit_code == 0);
    const HostRun resumed(
        wide_recipe(saving),
        {"--resume", (whole.run_dir() / "checkpoints" / "step-00000002_epoch-0").string()});
    INFO(resumed.result().out << resumed.result().err);
    REQUIRE(resumed.result().exit_code == 0);
    CHECK(resumed.summary()["resumed"]["step"] == 2);
    CHECK(resumed.summary()["parameters_hash"] == whole.summary()["parameters_hash"]);
    const auto peak = [](const HostRun& run) {
      return run.summary()["peak_tensor_bytes"].get<double>();
    };
    // Parameters, gradients and two moments: or the comparison would show nothing.
    CHECK(peak(whole) > 4 * 4 * 4.2e6);
    CHECK(peak(resumed) < 1.02 * peak(whole));
    CHECK(static_cast<double>(resumed.result().peak_bytes) <
          1.1 * static_cast<double>(whole.result().peak_bytes));
  }
}

}  // namespace tenon
