// SPDX-License-Identifier: Apache-2.0
//
// What the machine refuses: space on the disk, memory, a reader of the output. By limits of the
// process, which bind for root too.
#include <filesystem>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a run whose output nobody reads goes on to its end", "[faults]") {
  const HostRun run(small_recipe(), {}, {.is_out_closed = true});
  INFO(run.result().err);
  CHECK(run.result().exit_code == 0);
  CHECK(run.summary()["steps"] == 6);
}

}  // namespace tenon
