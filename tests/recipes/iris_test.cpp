// SPDX-License-Identifier: Apache-2.0
//
// The recipe on a table as it is shipped.
#include <nlohmann/json.hpp>

#include <fstream>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {

TEST_CASE("the iris recipe learns to tell the species of flowers that it has not seen",
          "[recipes]") {
  const ScratchFolder folder;
  const SubprocessResult result = run_subprocess({host_program().string(),
                                                  "--recipe",
                                                  (source_dir() / "recipes/iris.json").string(),
                                                  "--plugin-dir",
                                                  plugin_dir().string(),
                                                  "--run-dir",
                                                  (folder.path() / "run").string()});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  std::ifstream file(folder.path() / "run/summary.json");
  const auto metrics = nlohmann::json::parse(file)["metrics"];
  // 30 flowers; libraries of another build round otherwise, and may lose one that is on the edge.
  CHECK(metrics["eval/accuracy"].get<double>() >= 28.0 / 30 - 1e-9);
  CHECK(metrics["eval/loss"].get<double>() < 0.2);
}

}  // namespace tenon
