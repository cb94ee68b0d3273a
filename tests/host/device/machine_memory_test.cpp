// SPDX-License-Identifier: Apache-2.0
#include "host/device/machine_memory.hpp"

#include <cstdint>
#include <string>
#include <sys/resource.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// The files that describe a machine of 8 GiB, of which 5 are available, and its control groups.
class FakeMachine {
 public:
  FakeMachine() {
    folder_.write("proc/meminfo",
                  "MemTotal:        8388608 kB\nMemFree:         1048576 kB\n"
                  "MemAvailable:    5242880 kB\nSwapFree:              0 kB\n");
  }
  void write(const std::string& file, const std::string& text) { folder_.write(file, text); }
  AvailableMemory available() const {
    const auto found = available_memory(folder_.path().string());
    REQUIRE(found.has_value());
    return *found;
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

TEST_CASE("available memory is what the kernel can free, and swap", "[device]") {
  FakeMachine machine;
  CHECK(machine.available().bytes == 5 * kGiB);
  CHECK(machine.available().limit == "the machine");
  machine.write("proc/meminfo", "MemAvailable:    5242880 kB\nSwapFree:        2097152 kB\n");
  CHECK(machine.available().bytes == 7 * kGiB);
}

TEST_CASE("the smallest control group of version 2 limits the memory", "[device]") {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "0::/jobs/one\n");
  machine.write("sys/fs/cgroup/jobs/one/memory.max", "max\n");
  machine.write("sys/fs/cgroup/jobs/one/memory.current", "1\n");
  CHECK(machine.available().limit == "the machine");
  machine.write("sys/fs/cgroup/jobs/memory.max", std::to_string(4 * kGiB));
  machine.write("sys/fs/cgroup/jobs/memory.current", std::to_string(3 * kGiB));
  CHECK(machine.available().bytes == kGiB);
  CHECK_THAT(machine.available().limit, contains_text("the control group "));
  CHECK_THAT(machine.available().limit, contains_text("sys/fs/cgroup/jobs"));
  // The cache of files can be freed.
  machine.write("sys/fs/cgroup/jobs/memory.stat",
                "anon 1\ninactive_file " + std::to_string(kGiB) + "\nactive_file " +
                    std::to_string(kGiB) + "\n");
  CHECK(machine.available().bytes == 3 * kGiB);
}

TEST_CASE("the control group of version 1 limits the memory, also as the root of a container",
          "[device]") {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "3:cpu,cpuacct:/a\n7:memory:/docker/of-the-host\n");
  const std::string group = "sys/fs/cgroup/memory/";
  machine.write(group + "memory.limit_in_bytes", std::to_string(2 * kGiB));
  machine.write(group + "memory.usage_in_bytes", std::to_string(3 * kGiB));
  CHECK(machine.available().bytes == 0);
  machine.write(group + "memory.stat", "total_inactive_file " + std::to_string(2 * kGiB) + "\n");
  CHECK(machine.available().bytes == kGiB);
  machine.write(group + "memory.limit_in_bytes", "9223372036854771712\n");  // no limit
  CHECK(machine.available().limit == "the machine");
}

TEST_CASE("available memory is unknown, not zero, if the machine does not report it", "[device]") {
  const ScratchFolder empty;
  CHECK_FALSE(available_memory(empty.path().string()).has_value());
  CHECK(available_memory().has_value());
}

TEST_CASE("a limit of memory ends with its scope", "[device]") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_DATA, &before) == 0);
  {
    const MemoryLimit limit;
    rlimit now{};
    REQUIRE(getrlimit(RLIMIT_DATA, &now) == 0);
    CHECK(now.rlim_cur <= before.rlim_cur);
    CHECK(now.rlim_cur < RLIM_INFINITY);
  }
  rlimit after{};
  REQUIRE(getrlimit(RLIMIT_DATA, &after) == 0);
  CHECK(after.rlim_cur == before.rlim_cur);
}

}  // namespace tenon
