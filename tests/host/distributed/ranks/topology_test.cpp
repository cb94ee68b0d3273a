// SPDX-License-Identifier: Apache-2.0
//
// Machines are folders as Linux has them below /sys/devices/system.
#include "host/distributed/ranks/topology.hpp"

#include "tests/host/distributed/ranks/recorded_machine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

TEST_CASE("lists of processors are read and written as Linux has them", "[distributed]") {
  CHECK(parse_processors("0") == Processors{0});
  CHECK(parse_processors("0-3,8,10-11\n") == Processors{0, 1, 2, 3, 8, 10, 11});
  CHECK(parse_processors("5,1-2") == Processors{1, 2, 5});
  CHECK(parse_processors("").empty());
  CHECK(parse_processors("\n").empty());
  for (const char* const text : {"a", "1-", "-1", "3-1", "1;2", "0-999999999", "1,,2"}) {
    INFO(text);
    CHECK(parse_processors(text).empty());
  }
  CHECK(processors_text({0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11");
  CHECK(processors_text({}).empty());
}

TEST_CASE("hyperthreads of a core belong together, and cores to their node", "[distributed]") {
  const ScratchFolder folder;
  const std::string root = two_nodes(folder);
  const std::vector<Core> cores = read_topology(parse_processors("0-15"), root);
  const std::vector<Core> expected = {{0, {0, 8}},
                                      {0, {1, 9}},
                                      {0, {2, 10}},
                                      {0, {3, 11}},
                                      {1, {4, 12}},
                                      {1, {5, 13}},
                                      {1, {6, 14}},
                                      {1, {7, 15}}};
  CHECK(cores == expected);
}

TEST_CASE("processors that this process may not run on are no part of a core", "[distributed]") {
  const ScratchFolder folder;
  const std::vector<Core> cores = read_topology({1, 8, 9, 12}, two_nodes(folder));
  CHECK(cores == std::vector<Core>{{0, {8}}, {0, {1, 9}}, {1, {12}}});
}

TEST_CASE("a core that is offline is not there", "[distributed]") {
  const ScratchFolder folder;
  // sched_getaffinity does not name it either.
  const std::vector<Core> cores = read_topology({0, 1, 2, 4, 5, 6, 7}, offline_core(folder));
  CHECK(cores ==
        std::vector<Core>{{0, {0}}, {0, {1}}, {0, {2}}, {1, {4}}, {1, {5}}, {1, {6}}, {1, {7}}});
}

TEST_CASE("without nodes and siblings each processor is a core of one node", "[distributed]") {
  const ScratchFolder folder;
  CHECK(read_topology({0, 3}, folder.path().string()) == std::vector<Core>{{0, {0}}, {0, {3}}});
}

TEST_CASE("the quota of processors is that of the smallest control group", "[distributed]") {
  const ScratchFolder folder;
  const std::string root = folder.path().string();
  CHECK(processor_quota(root) == std::nullopt);
  folder.write("proc/self/cgroup", "0::/jobs/one\n");
  folder.write("sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
  CHECK(processor_quota(root) == std::nullopt);
  folder.write("sys/fs/cgroup/jobs/cpu.max", "250000 100000\n");
  CHECK(processor_quota(root) == 3);
  folder.write("sys/fs/cgroup/jobs/one/cpu.max", "50000 100000\n");
  CHECK(processor_quota(root) == 1);
}

TEST_CASE("the quota of processors is that of version 1, too", "[distributed]") {
  const ScratchFolder folder;
  const std::string root = folder.path().string();
  folder.write("proc/self/cgroup", "5:memory:/a\n3:cpu,cpuacct:/docker/of-the-host\n");
  folder.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  folder.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(processor_quota(root) == std::nullopt);
  folder.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
  CHECK(processor_quota(root) == 4);
}

TEST_CASE("this machine is read", "[distributed]") {
  const Processors allowed = allowed_processors();
  REQUIRE_FALSE(allowed.empty());
  CHECK(num_online_processors() >= 1);
  size_t count = 0;
  for (const Core& core : read_topology(allowed)) {
    count += core.processors.size();
  }
  CHECK(count == allowed.size());
}

}  // namespace tenon
