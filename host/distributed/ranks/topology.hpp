// SPDX-License-Identifier: Apache-2.0
//
// The processors of this machine, by core and NUMA node, as Linux reports them in /sys. binding.hpp
// assigns them to ranks. A core is the unit that computes; with hyperthreads, the system sees it as
// several processors.
// Threads: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Numbers of processors, in ascending order.
using Processors = std::vector<int>;

struct Core {
  int node = 0;
  Processors processors;  // hyperthread siblings; at least one

  bool operator==(const Core&) const = default;
};

// Parses "0-3,8,10-11", the format of files in /sys. Returns an empty list for invalid text.
Processors parse_processors(std::string_view text);
// Formats a list in the same way.
std::string processors_text(const Processors& processors);

// Returns the cores that have a processor in `allowed`, with these processors only, sorted by node,
// then by first processor. If /sys lists no nodes, all cores are on node 0; if it lists no
// siblings, each processor is a core. `root` is the folder used as /sys/devices/system.
std::vector<Core> read_topology(const Processors& allowed,
                                const std::string& root = "/sys/devices/system");

// Returns the processors on which this thread may run. Threads and processes that it starts inherit
// them.
Processors allowed_processors();

// Returns the number of processors that the system runs on, including those that this process may
// not use.
int num_online_processors();

// Returns how many processors the control groups of this process let it use at a time, rounded up;
// nothing if they do not limit it. `root` replaces "/", for tests.
std::optional<int> processor_quota(const std::string& root = "/");

}  // namespace tenon
