// SPDX-License-Identifier: Apache-2.0
//
// The Linux control groups of this process, which limit its memory and its processor time.
// Threads: any.
//
// Source: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct ControlGroup {
  std::string folder;
  bool is_version_2 = true;  // the versions name their files differently
};

// Returns the groups that limit this process by a controller ("memory", "cpu"): its own and those
// around it, innermost first. In a container, the path in /proc/self/cgroup can be one of the
// host's, and the group of the container is the root. `root` replaces "/", for tests.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::string& root = "/");

}  // namespace tenon
