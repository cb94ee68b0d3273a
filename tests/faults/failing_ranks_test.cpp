// SPDX-License-Identifier: Apache-2.0
//
// Ranks that fail in a run of several: what all of them end with, what is told, and how soon.
#include "tests/faults/failing_ranks.hpp"

#include <filesystem>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/faults/ranks_end.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

std::string at_step_3(const std::string& how, uint32_t rank, double wait = 0) {
  return R"({"event": "after_loss", "step": 3, "how": ")" + how + R"(", "rank": )" +
         std::to_string(rank) + R"(, "wait_seconds": )" + std::to_string(wait) + "}";
}

}  // namespace

TEST_CASE("an error of one rank ends all of them at once, with its text", "[faults][ranks]") {
  const auto run = FailingRanks::launched(failing_recipe(at_step_3("error", 1)), 3);
  check_end(run, 3, 1);
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err,
             contains_text("[distributed.failed] rank 1 failed in step 3, at after_loss: "
                           "[plugin.failed] at after_loss: hook \"fail_at\""));
  CHECK_THAT(run.result().out, contains_text("failed: [distributed.failed] rank 1 failed in step"));
  CHECK_THAT(run.result().out, contains_text("asked to fail"));
  CHECK(run.record(1)["error_id"] == "plugin.failed");
  CHECK(run.record(0)["error_id"] == "distributed.failed");
  CHECK(run.record(1)["first_failure"]["kind"] == "threw");
  CHECK(run.record(2)["last_collectives"].size() > 10);
  CHECK(run.seconds_from_fault() < kFailureTimeout + kBusyMachine);  // nothing is waited for
}

TEST_CASE("a rank that is killed is told with its signal and where it was", "[faults][ranks]") {
  for (const uint32_t rank : {0U, 1U}) {
    const auto run = FailingRanks::launched(failing_recipe(at_step_3("kill", rank, 0.8)), 2);
    check_end(run, 2, rank);
    CHECK(run.result().exit_code == 5);
    CHECK_THAT(run.result().err,
               contains_text("rank " + std::to_string(rank) +
                             " was killed by signal 9 (SIGKILL); "
                             "it was last seen in step 3, at after_loss, in hook \"fail_at\""));
    CHECK(run.record(rank)["written_by"] == "the launcher");
    CHECK(run.record(1 - rank)["written_by"] == "rank " + std::to_string(1 - rank));
  }
}

TEST_CASE("the ranks beside a killed rank of a pipeline name value, stages and peer",
          "[faults][ranks]") {
  // Rank 1 is killed before the backward of microbatch 0. It has sent microbatches 0 and 1 to rank
  // 2, and no gradient to rank 0.
  nlohmann::json recipe = nlohmann::json::parse(small_language_recipe("{}"));
  recipe.merge_patch({{"parallel", {{"pipeline", 3}}}});
  const nlohmann::json failing = nlohmann::json::parse(failing_recipe(
      R"({"event": "before_backward", "step": 3, "how": "kill", "rank": 1, "wait_seconds": 0.8})"));
  recipe["hooks"] = failing["hooks"];
  recipe["parallel"].merge_patch(failing["parallel"]);
  const auto run = FailingRanks::launched(recipe.dump(), 3);
  check_end(run, 3, 1);
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err, contains_text("rank 1 was killed by signal 9 (SIGKILL)"));
  struct Neighbor {
    uint32_t rank;
    const char* waits;
    const char* message;
  };
  for (const Neighbor& one :
       {Neighbor{0, "gradient of value '", "' of microbatch 0 in step 3, from stage 1 to stage 0"},
        Neighbor{2, "value '", "' of microbatch 2 in step 3, from stage 1 to stage 2"}}) {
    CAPTURE(one.rank);
    const nlohmann::json record = run.record(one.rank);
    CHECK(record["error_id"] == "distributed.failed");
    CHECK_THAT(record.dump(), contains_text(one.waits) && contains_text(one.message));
  }
}

TEST_CASE("a killed rank is found without a launcher, even if it hosts the store",
          "[faults][ranks][.release]") {
  for (const uint32_t rank : {0U, 1U}) {
    const auto run =
        FailingRanks::started(failing_recipe(at_step_3("kill", rank, 0.8)), {{}, {}, {}});
    check_end(run, 3, rank);
    std::vector<int> codes(3, 5);
    codes[rank] = 137;
    CHECK(run.exit_codes() == codes);
    CHECK_THAT(run.text(),
               contains_text("its process has exited; it was last seen in step 3, "
                             "at after_loss"));
    INFO(run.text());
    CHECK_THAT(run.text(), contains_text("of \"parameters of 'mlp'\""));
    // What ranks say of themselves is in the store.
    CHECK((rank == 0 || run.names_collective_of_each()));
  }
}

TEST_CASE("a rank that is stopped for longer than the timeout is lost and is ended",
          "[faults][ranks][.release]") {
  for (const uint32_t rank : {0U, 1U}) {
    const auto run = FailingRanks::launched(failing_recipe(at_step_3("stop", rank, 0.8)), 2);
    check_end(run, 2, rank);
    CHECK(run.result().exit_code == 5);
    CHECK_THAT(run.result().err,
               contains_text("rank " + std::to_string(rank) + " has not answered for"));
    CHECK_THAT(run.result().err,
               contains_text("its process exists, but is stopped (SIGSTOP or a debugger); it was "
                             "last seen in step 3, at after_loss"));
    CHECK(run.names_collective_of_each());
    CHECK(run.record(rank)["first_failure"]["kind"] == "silent");
  }
}

TEST_CASE("where the rank that keeps the store stands still, the others end all the same",
          "[faults][ranks][.release]") {
  FailingRank stopped;
  stopped.seconds_to_live = 15;  // nobody else ends it
  const auto run = FailingRanks::started(failing_recipe(at_step_3("stop", 0, 0.8)), {stopped, {}});
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>{137, 5});
  CHECK(run.num_reports() == 1);
  CHECK_THAT(run.text(), contains_text("rank 0 "));
  CHECK_THAT(run.text(), contains_text("its process exists, but is stopped"));
  CHECK(run.record(1)["first_failure"]["rank"] == 0);
}

TEST_CASE("a rank that hangs in a plugin is reported as slow, and nobody waits for it",
          "[faults][ranks][.release]") {
  const auto run = FailingRanks::launched(failing_recipe(at_step_3("hang", 1)), 2);
  check_end(run, 2, 1);
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err, contains_text("rank 1 is slow: others wait for it in "));
  CHECK_THAT(run.result().err,
             contains_text("it is in step 3, at after_loss, in hook \"fail_at\""));
  CHECK(run.names_collective_of_each());
  CHECK(run.record(1)["first_failure"]["kind"] == "slow");
  CHECK_THAT(run.record(1)["error"].get<std::string>(), contains_text("was interrupted"));
}

TEST_CASE("a rank whose call hangs for longer than it may is told by its watchdog",
          "[faults][ranks][.release]") {
  const auto run = FailingRanks::launched(
      failing_recipe(at_step_3("hang", 1), R"({"plugins": {"timeout_seconds": 0.5}})"), 2);
  check_end(run, 2, 1);
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err,
             contains_text("rank 1 failed in step 3, at after_loss: "
                           "[plugin.stuck] hook \"fail_at\""));
}

TEST_CASE("a plugin that ends its process is told with the status", "[faults][ranks][.release]") {
  const auto run = FailingRanks::launched(failing_recipe(at_step_3("exit", 0)), 2);
  check_end(run, 2, 0);
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err, contains_text("rank 0 exited with status 1"));
}

TEST_CASE("a rank that is cut off is lost for the others and ends too",
          "[faults][ranks][.release]") {
  FailingRank rank;
  rank.options.environment = {{"TENON_TEST_COLLECTIVES", "drop_after=400,rank=1"}};
  const auto run = FailingRanks::started(
      failing_recipe(R"({"event": "end", "step": 99999})", R"({"train": {"steps": 10000}})"),
      {rank, rank, rank});
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>{5, 5, 5});
  CHECK_THAT(run.text(), contains_text("rank 1 has not answered for"));
  CHECK(run.record(0)["first_failure"]["rank"] == 1);
  CHECK(run.record(2)["first_failure"]["rank"] == 1);
  CHECK(run.leftovers().empty());
  CHECK(run.num_reports() == 1);
}

TEST_CASE("an error before the first step ends all ranks with its own status", "[faults][ranks]") {
  const auto run = FailingRanks::launched(
      failing_recipe(R"({"event": "start", "step": 0, "how": "error", "rank": 1})"), 2);
  INFO(run.text());
  CHECK(run.result().exit_code == 4);
  CHECK(run.num_reports() == 1);
  CHECK_THAT(run.result().err,
             contains_text("rank 1 failed before the first step, at start: [plugin.failed]"));
  CHECK(run.summary()["exit_code"] == 4);
  CHECK(run.record(0)["exit_code"] == 4);
  CHECK(run.leftovers().empty());
}

TEST_CASE("a rank that runs out of memory is reported and ends all ranks",
          "[faults][ranks][.release]") {
  FailingRank poor;
  poor.options.memory_limit = 1'100'000'000;
  const auto run = FailingRanks::started(
      failing_recipe(R"({"event": "end", "step": 99})",
                     R"({"model": {"options": {"hidden": [2000]}}, "data": {"batch_size": 60000,
                                               "train": {"options": {"samples": 120000}}}})"),
      {{}, poor});
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>{5, 5});
  CHECK(run.num_reports() == 1);
  CHECK_THAT(run.text(), contains_text("rank 1 failed before the first step"));
  CHECK_THAT(run.text(), contains_text("[run.out_of_memory]"));
  CHECK(run.record(1)["error_id"] == "run.out_of_memory");
}

TEST_CASE("a port in use and a master that does not answer are reported with the address",
          "[faults][ranks][.release]") {
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  REQUIRE(::bind(taken, reinterpret_cast<sockaddr*>(&address), length) == 0);
  REQUIRE(::listen(taken, 1) == 0);
  REQUIRE(::getsockname(taken, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  const uint16_t port = ntohs(address.sin_port);
  const std::string recipe = failing_recipe(R"({"event": "end", "step": 99})",
                                            R"({"parallel": {"start_timeout_seconds": 3}})");
  const auto run = FailingRanks::started(recipe, {{}, {}}, port);
  ::close(taken);
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>{2, 5});
  const std::string endpoint = "127.0.0.1:" + std::to_string(port);
  CHECK_THAT(run.result(0).err, contains_text("[distributed.port_taken]"));
  CHECK_THAT(run.result(0).err, contains_text(endpoint));
  CHECK_THAT(run.result(1).err, contains_text("[distributed.unreachable]"));
  CHECK_THAT(run.result(1).err, contains_text(endpoint));
  CHECK_FALSE(std::filesystem::exists(run.run_dir()));
  FailingRank absent;
  absent.is_started = false;
  const auto alone = FailingRanks::started(recipe, {absent, {}});
  CHECK(alone.result(1).exit_code == 5);
  CHECK_THAT(alone.result(1).err, contains_text("the master at 127.0.0.1:"));
  CHECK_FALSE(std::filesystem::exists(alone.run_dir()));
}

TEST_CASE("three ranks of four report the rank that did not join", "[faults][ranks][.release]") {
  FailingRank absent;
  absent.is_started = false;
  const auto run =
      FailingRanks::started(failing_recipe(R"({"event": "end", "step": 99})",
                                           R"({"parallel": {"start_timeout_seconds": 6}})"),
                            {{}, {}, absent, {}});
  INFO(run.text());
  for (const size_t rank : {0U, 1U, 3U}) {
    CHECK(run.result(rank).exit_code == 5);
    CHECK_THAT(run.result(rank).err, contains_text("rank 2 of 4 did not connect"));
  }
  CHECK(run.leftovers().empty());
  CHECK_FALSE(std::filesystem::exists(run.run_dir()));
}

TEST_CASE("each rank reports an error of one, with its rank, before anything is created",
          "[faults][ranks][.release]") {
  const std::string recipe = failing_recipe(R"({"event": "end", "step": 99})");
  const auto check_reported = [](const FailingRanks& run, const std::vector<std::string>& texts) {
    INFO(run.text());
    for (const int code : run.exit_codes()) {
      CHECK(code == 3);
    }
    for (const std::string& text : texts) {  // started by hand, each has its own terminal
      CHECK_THAT(run.result(0).err, contains_text(text));
      CHECK_THAT(run.result(1).err, contains_text(text));
    }
    CHECK_FALSE(std::filesystem::exists(run.run_dir()));
    CHECK(run.leftovers().empty());
  };
  SECTION("a plugin") {
    const ScratchFolder plugins;
    for (const auto& file : std::filesystem::directory_iterator(plugin_dir())) {
      if (file.path().extension() == ".so" && file.path().stem() != "mlp") {
        std::filesystem::create_symlink(file.path(), plugins.path() / file.path().filename());
      }
    }
    FailingRank lacking;
    lacking.plugins = plugins.path().string();
    check_reported(FailingRanks::started(recipe, {{}, lacking}),
                   {"[recipe.unknown_type] rank 1: ", "found: \"mlp\""});
  }
  SECTION("another recipe") {
    FailingRank other;
    other.arguments = {"--set", "optimizer.options.lr=0.2"};
    check_reported(FailingRanks::started(recipe, {{}, other}),
                   {"[distributed.differs] the ranks were started differently",
                    "/options/lr: 0.1 on rank 0, 0.2 on rank 1"});
  }
  SECTION("a shorter file") {
    const ScratchFolder data;
    data.write("0/rows.csv", "a,b,y\n1,2,0\n2,3,1\n3,4,0\n4,5,1\n");
    data.write("1/rows.csv", "a,b,y\n1,2,0\n2,3,1\n3,4,0\n");
    // One path, which means another file on each of them.
    const std::string csv = failing_recipe(R"({"event": "end", "step": 99})", R"({
      "model": {"options": {"in_features": 2, "out_features": 2}},
      "data": {"batch_size": 1, "train": {"type": "csv", "options": {"samples": null,
        "files": ["/proc/self/cwd/rows.csv"],
        "fields": [{"name": "x", "columns": ["a", "b"]},
                   {"name": "labels", "column": "y", "dtype": "i64"}]}}}})");
    FailingRank whole;
    whole.options.working_dir = (data.path() / "0").string();
    FailingRank shorter;
    shorter.options.working_dir = (data.path() / "1").string();
    check_reported(FailingRanks::started(csv, {whole, shorter}), {"[data.differs]", "rank 1"});
  }
  SECTION("a mesh that does not divide, on all") {
    FailingRank indivisible;
    indivisible.arguments = {"--set", "parallel.shard=2"};
    check_reported(FailingRanks::started(recipe, {indivisible, indivisible, indivisible}),
                   {"[distributed.bad_mesh]", "but there are 3 ranks"});
  }
}

TEST_CASE("a rank that cannot open enough files reports its limit and its need",
          "[faults][ranks]") {
  FailingRank limited;
  limited.open_files = 20;
  const auto run =
      FailingRanks::started(failing_recipe(R"({"event": "end", "step": 99})",
                                           R"({"parallel": {"start_timeout_seconds": 5}})"),
                            {{}, limited});
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>{5, 5});
  CHECK_THAT(run.result(1).err, contains_text("files of at most 20 open, but needs"));
  CHECK_THAT(run.result(0).err, contains_text("rank 1 of 2 did not connect"));
}

TEST_CASE("a signal to one rank ends all of them in order", "[faults][ranks]") {
  const auto run =
      FailingRanks::launched(small_recipe(R"({"train": {"steps": 1000000, "log_every": 100000},
    "data": {"train": {"options": {"samples": 48}}},
    "hooks": [{"type": "signal_at", "options": {"rank": 1,
      "signals": [{"event": "after_loss", "step": 3, "signal": "SIGTERM"}]}}]})"),
                             2);
  INFO(run.text());
  CHECK(run.result().exit_code == 75);
  CHECK(run.summary()["outcome"] == "stopped early");
  CHECK(run.num_reports() == 0);
  CHECK(run.leftovers().empty());
  CHECK_FALSE(std::filesystem::exists(run.run_dir() / "errors"));
}

TEST_CASE("ranks that end in order leave no process, no port and no record", "[faults][ranks]") {
  const auto run =
      FailingRanks::started(failing_recipe(R"({"event": "end", "step": 99})"), {{}, {}});
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>{0, 0});
  CHECK(run.leftovers().empty());
  CHECK_FALSE(std::filesystem::exists(run.run_dir() / "errors"));
  const int again = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(again, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));  // connections of before linger
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(run.port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(::bind(again, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  ::close(again);
}

}  // namespace tenon
