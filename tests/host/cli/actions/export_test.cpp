// SPDX-License-Identifier: Apache-2.0
#include "host/cli/all_actions.hpp"
#include "host/cli/parse_command_line.hpp"

#include "tests/host/cli/usage_failure.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("weights are exported from a run or a checkpoint, and imported to a new run", "[cli]") {
  const CommandLine run =
      parse_command_line({"--export", "hf", "out", "--run-dir", "runs/a", "--file-bytes", "1GB"});
  CHECK(run.action == &kExportAction);
  CHECK(run.weights_export ==
        WeightsExport{.format = "hf", .to = "out", .run_dir = "runs/a", .file_bytes = 1000000000});
  const CommandLine one =
      parse_command_line({"--export", "torch", "a.pt", "--from", "runs/a", "--dtype", "bf16"});
  CHECK(one.weights_export ==
        WeightsExport{.format = "torch", .to = "a.pt", .from = "runs/a", .dtype = "bf16"});
  CHECK_THAT(usage_failure({"--export", "hf", "out"}), contains_text("--run-dir RUN"));
  CHECK_THAT(usage_failure({"--export", "hf", "out", "--run-dir", "a", "--from", "b"}),
             contains_text("contradict each other"));
  CHECK_THAT(usage_failure({"--export", "tf", "out", "--run-dir", "a"}),
             contains_text("--export: expected hf, torch or peft, found \"tf\""));
  CHECK_THAT(usage_failure({"--export", "hf", "out", "--run-dir", "a", "--dtype", "int8"}),
             contains_text("bf16, f16, f32 or f64"));
  CHECK_THAT(usage_failure({"--export", "torch", "out", "--run-dir", "a", "--file-bytes", "1GB"}),
             contains_text("which writes one file"));
  CHECK_THAT(usage_failure({"--export", "hf", "out", "--run-dir", "a", "--file-bytes", "none"}),
             contains_text("--file-bytes"));
  CHECK_THAT(usage_failure({"--recipe", "r", "--dtype", "bf16"}),
             contains_text("goes with --export"));

  const CommandLine imported =
      parse_command_line({"--recipe", "r", "--import", "hf", "in", "--run-dir", "runs/b"});
  CHECK(imported.action == &kTrainAction);
  CHECK(imported.weights_import == WeightsImportRequest{.format = "hf", .from = "in"});
  CHECK(imported.resume == ResumeRequest{});
  CHECK_THAT(usage_failure({"--recipe", "r", "--import", "hf", "in"}),
             contains_text("--run-dir DIR"));
  CHECK_THAT(usage_failure({"--recipe", "r", "--import", "torch", "in", "--run-dir", "b"}),
             contains_text("--import: expected hf, found \"torch\""));
  CHECK_THAT(usage_failure(
                 {"--recipe", "r", "--import", "hf", "in", "--run-dir", "b", "--resume", "auto"}),
             contains_text("contradict each other"));
}

}  // namespace tenon
