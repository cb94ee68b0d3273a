// SPDX-License-Identifier: Apache-2.0
#include "host/cli/all_actions.hpp"
#include "host/cli/parse_command_line.hpp"

#include <cmath>

#include "tests/host/cli/usage_failure.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

Words plan_words(Words more) {
  more.insert(more.begin(), {"--recipe", "a.json", "--plan"});
  return more;
}

}  // namespace

TEST_CASE("a plan is read with the speeds of a machine", "[cli]") {
  const CommandLine line = parse_command_line(plan_words({"1024",
                                                          "--ranks-per-node=4",
                                                          "--flops=400T",
                                                          "--memory=80GiB",
                                                          "--bandwidth-node=400e9",
                                                          "--bandwidth-network=50GB",
                                                          "--bandwidth-host=25e9B",
                                                          "--latency=5us",
                                                          "--json"}));
  CHECK(line.action == &kPlanAction);
  CHECK(line.is_json);
  CHECK(line.plan.ranks == 1024);
  CHECK(line.plan.ranks_per_node == 4);
  CHECK(line.plan.flops == 400e12);
  CHECK(line.plan.memory == int64_t{80} << 30);
  CHECK(line.plan.bandwidth_node == 400e9);
  CHECK(line.plan.bandwidth_network == 50e9);
  CHECK(line.plan.bandwidth_host == 25e9);
  CHECK(std::abs(line.plan.latency.value_or(0) - 5e-6) < 1e-18);
}

TEST_CASE("a speed that is not given is the default of the device", "[cli]") {
  const PlanRequest plan = parse_command_line(plan_words({"1", "--flops", "1e12"})).plan;
  CHECK_FALSE(plan.memory.has_value());
  CHECK(plan.on(kPlannedGpus).flops == 1e12);
  CHECK(plan.on(kPlannedGpus).bandwidth_network == kPlannedGpus.bandwidth_network);
  CHECK(plan.on(kPlannedCpus).latency == kPlannedCpus.latency);
}

TEST_CASE("a plan refuses numbers of ranks and speeds that cannot exist", "[cli]") {
  for (const std::string ranks : {"0", "-4", "10001", "4x", "1e3", "99999999999999999999"}) {
    CAPTURE(ranks);
    CHECK(usage_failure(plan_words({ranks})) ==
          "usage.bad_option: --plan: expected a number of ranks from 1 to 10000, found \"" + ranks +
              "\"");
  }
  CHECK(usage_failure(plan_words({"10000"})) == "no error");
  CHECK_THAT(usage_failure(plan_words({"8", "--ranks-per-node", "0"})),
             contains_text("--ranks-per-node: expected a number of ranks from 1 to 10000"));
  CHECK_THAT(usage_failure(plan_words({"8", "--bandwidth-network", "0"})),
             contains_text("--bandwidth-network: expected a number of bytes above 0"));
  CHECK_THAT(usage_failure(plan_words({"8", "--memory", "1e30"})),
             contains_text("no machine has that many bytes"));
}

}  // namespace tenon
