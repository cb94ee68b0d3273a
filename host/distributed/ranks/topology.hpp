// SPDX-License-Identifier: Apache-2.0
//
// The processors of this machine, by core and NUMA node, as Linux reports them in /sys. What ranks
// get of them is binding.hpp's. A core is what computes; with hyperthreads it is several processors
// to the system.
// Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Numbers of processors, rising.
using Processors = std::vector<int>;

struct Core {
  int node = 0;
  Processors processors;  // hyperthread siblings; at least one

  bool operator==(const Core&) const = default;
};

// "0-3,8,10-11", as the files of /sys have it; an empty list for text that is none.
Processors parse_processors(std::string_view text);
// The other way round.
std::string processors_text(const Processors& processors);

// The cores that have a processor in `allowed`, with these alone: by node, then by their first
// processor. Where /sys does not tell nodes or siblings, all is one node, and each processor a
// core.
// `root`: the folder that stands for /sys/devices/system.
std::vector<Core> read_topology(const Processors& allowed,
                                const std::string& root = "/sys/devices/system");

// The processors that this thread may run on; what it starts may run on the same.
Processors allowed_processors();

// How many processors the system runs on, whatever this process is allowed.
int num_online_processors();

}  // namespace tenon
