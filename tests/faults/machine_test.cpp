// SPDX-License-Identifier: Apache-2.0
//
// What the machine refuses: space on the disk, memory, a reader of the output. By limits of the
// process, which bind for root too.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a run whose output nobody reads continues to its end", "[faults]") {
  const HostRun run(small_recipe(), {}, {.is_out_closed = true});
  INFO(run.result().err);
  CHECK(run.result().exit_code == 0);
  CHECK(run.summary()["steps"] == 6);
}

TEST_CASE("a disk that fills while metrics are written costs the metrics, not the run",
          "[faults]") {
  // 12 KiB hold the recipe and the first lines, not those of 400 steps.
  const HostRun run(small_recipe(R"({"train": {"steps": 400}})"), {}, {.file_size_limit = 12288});
  INFO(run.result().err);
  CHECK(run.result().exit_code == 0);
  CHECK_THAT(run.result().err, contains_text("warning: [plugin.failed] metric_sink \"jsonl\""));
  CHECK_THAT(run.result().err, contains_text("metrics.jsonl: File too large"));
  const std::string metrics = run.file("metrics.jsonl");
  REQUIRE_FALSE(metrics.empty());
  CHECK(metrics.back() == '\n');  // no half a line
  CHECK(run.summary()["steps"] == 400);
  const auto lost = run.summary()["lost_records"].get<int>();
  CHECK(lost == 400 - static_cast<int>(std::ranges::count(metrics, '\n')));
  CHECK_THAT(run.last_line(), contains_text(std::to_string(lost) + " writes of metrics failed"));
}

TEST_CASE("a summary that cannot be written fails the run", "[faults]") {
  // The command line stands in the summary, and nowhere else.
  std::vector<std::string> arguments;
  for (int i = 0; i < 2000; ++i) {
    arguments.insert(arguments.end(), {"--set", "seed=1"});
  }
  const HostRun run(small_recipe(), arguments, {.file_size_limit = 16384});
  INFO(run.result().err);
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err, contains_text("error: [run.dir_unwritable]"));
  CHECK_THAT(run.result().err, contains_text("summary.json: File too large"));
  CHECK_FALSE(std::filesystem::exists(run.run_dir() / "summary.json"));
  CHECK_FALSE(std::filesystem::exists(run.run_dir() / "summary.json.tmp"));
  CHECK(run.metrics().size() == 6);
}

TEST_CASE("a disk that is full at the start leaves no run folder", "[faults]") {
  const HostRun run(small_recipe(), {}, {.file_size_limit = 0});
  INFO(run.result().err);
  CHECK(run.result().exit_code == 2);
  CHECK_THAT(run.result().err, contains_text("[run.dir_unwritable]"));
  CHECK_FALSE(std::filesystem::exists(run.run_dir()));
}

TEST_CASE("a run folder below a file is rejected, even for root", "[faults]") {
  const ScratchFolder folder;
  const auto file = folder.write("file", "precious");
  const HostRun run(small_recipe(), {"--run-dir", (file / "run").string()});
  INFO(run.result().err);
  CHECK(run.result().exit_code == 2);
}

TEST_CASE("a model whose activations take more memory than there is ends with 5, and is named",
          "[faults]") {
#ifdef __SANITIZE_ADDRESS__
  TENON_SKIP("the address sanitizer needs terabytes of addresses itself");
#endif
  // 10,000 samples x 1,000,000 features, 37 GiB, of 16 GiB of addresses.
  const HostRun run(small_recipe(R"({"model": {"options": {"hidden": [1000000]}},
    "data": {"batch_size": 10000, "train": {"options": {"samples": 20000}}}})"),
                    {},
                    {.memory_limit = std::uint64_t{16} << 30});
  INFO(run.result().err);
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err, contains_text("[run.out_of_memory] block 'mlp': model \"mlp\""));
  CHECK_THAT(run.result().err, contains_text("could not allocate 37.3 GiB"));
  CHECK(run.summary()["error_id"] == "run.out_of_memory");
}

TEST_CASE("out of memory in the host has its own error id and ends with 5", "[faults]") {
#ifdef __SANITIZE_ADDRESS__
  TENON_SKIP("the address sanitizer needs terabytes of addresses itself");
#endif
  // The host looks up the rows of a batch: 100,000 samples x 65,536 features, 24 GiB.
  const HostRun run(small_recipe(R"({"model": {"type": "deepfm", "options": {"in_features": null,
    "out_features": null, "categorical": ["c0"], "dim": 65536, "hidden": [2],
    "first_order": false}}, "data": {"batch_size": 100000, "train": {"type": "criteo_like",
    "options": {"samples": 200000, "categorical": 1, "dense": 0, "num_ids": 2}}},
    "loss": {"type": "bce_with_logits", "inputs": {"labels": "label"}},
    "tables": {"c0": {"optimizer": {"type": "sgd", "options": {"lr": 0.1}}}}})"),
                    {},
                    {.memory_limit = std::uint64_t{16} << 30});
  INFO(run.result().err);
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err,
             contains_text("[run.out_of_memory] no memory is left within the limit of addresses"));
  CHECK(run.summary()["error_id"] == "run.out_of_memory");
}

}  // namespace tenon
