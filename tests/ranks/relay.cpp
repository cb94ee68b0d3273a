// SPDX-License-Identifier: Apache-2.0
#include "tests/ranks/relay.hpp"

#include "tests/ranks/mesh_recipes.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

FinishedRun relay(const nlohmann::json& recipe, const std::vector<Leg>& legs) {
  const ScratchFolder folder;
  const std::string run_dir = (folder.path() / "run").string();
  const int last_step = recipe["train"]["steps"];
  for (const Leg& leg : legs) {
    nlohmann::json now = merged(recipe, leg.patch);
    now["checkpoint"]["at_end"] = true;
    if (leg.last_step < last_step) {
      now["train"]["exit_at_step"] = leg.last_step;
    }
    const RanksRun run(now.dump(), leg.num_ranks, {"--run-dir", run_dir});
    INFO(leg.patch << "\n" << run.text());
    const int code = leg.last_step < last_step ? 75 : 0;
    REQUIRE(run.exit_codes() == std::vector<int>(leg.num_ranks, code));
  }
  return finished_in(run_dir);
}

}  // namespace tenon
