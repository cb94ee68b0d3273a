// SPDX-License-Identifier: Apache-2.0
//
// --schedule as a user gives it.
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

SubprocessResult schedule(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {host_program().string(), "schedule"});
  return run_subprocess(arguments, {});
}

}  // namespace

TEST_CASE("a schedule is drawn without a recipe", "[cli]") {
  const SubprocessResult result = schedule({"1f1b", "--ranks", "4", "--microbatches", "6"});
  CHECK(result.exit_code == 0);
  CHECK(result.out == file_text(source_dir() / "tests/host/tools/plan/schedules/1f1b.txt"));
}

TEST_CASE("a table that the program wrote is one that it reads", "[cli]") {
  const ScratchFolder folder;
  const SubprocessResult csv = schedule({"zb-v", "--ranks", "3", "--microbatches", "5", "--csv"});
  CHECK(csv.exit_code == 0);
  const std::string file = folder.write("zb-v.csv", csv.out);
  const SubprocessResult again =
      schedule({file, "--ranks", "3", "--microbatches", "5", "--stages-per-rank", "2", "--csv"});
  CHECK(again.exit_code == 0);
  CHECK(again.out == csv.out);
  const SubprocessResult drawn = schedule({file, "--times", "20ms,20ms,20ms", "--latency", "1ms"});
  CHECK(drawn.exit_code == 0);
  CHECK_THAT(drawn.out, contains_text("zb-v.csv: 3 ranks, 6 stages, 5 microbatches\n"));
}

TEST_CASE("the first mistake of a table is an error with status 3", "[cli]") {
  const ScratchFolder folder;
  const std::string deadlock = folder.write("deadlock.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  const SubprocessResult refused = schedule({deadlock});
  CHECK(refused.exit_code == 3);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.err,
             contains_text("[schedule.invalid] " + deadlock +
                           ": row 1, column 2: deadlock: rank 0 waits at action 2 (0B0) for "
                           "gradients of stage 1 from rank 1; rank 1 waits at action 2 (1F1) for "
                           "values of stage 0 from rank 0"));
  const SubprocessResult bad = schedule({folder.write("bad.csv", "0F0,0Z0\n")});
  CHECK(bad.exit_code == 3);
  CHECK_THAT(bad.err, contains_text("bad.csv: row 1, column 2: \"0Z0\": unknown kind of action"));
  const SubprocessResult missing = schedule({(folder.path() / "none.csv").string()});
  CHECK(missing.exit_code == 3);
  CHECK_THAT(missing.err, contains_text("[schedule.unreadable]"));
}

}  // namespace tenon
