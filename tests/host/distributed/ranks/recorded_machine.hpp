// SPDX-License-Identifier: Apache-2.0
//
// Machines as Linux tells of them: what their files below /sys/devices/system held, cut to what is
// read.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.hpp"

namespace tenon {

struct RecordedMachine {
  std::vector<std::string> nodes;     // the processors of each
  std::vector<std::string> siblings;  // of each processor; "" for one that is offline
  std::string name_of_siblings = "core_cpus_list";
};

inline std::string write_machine(const ScratchFolder& folder, const RecordedMachine& machine) {
  const auto write = [](const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  };
  const std::filesystem::path root = folder.path();
  for (size_t i = 0; i < machine.nodes.size(); ++i) {
    write(root / "node" / ("node" + std::to_string(i)) / "cpulist", machine.nodes[i]);
  }
  write(root / "node" / "online", "0-" + std::to_string(machine.nodes.size() - 1));
  for (size_t i = 0; i < machine.siblings.size(); ++i) {
    const std::filesystem::path cpu = root / "cpu" / ("cpu" + std::to_string(i));
    std::filesystem::create_directories(cpu);
    if (!machine.siblings[i].empty()) {
      write(cpu / "topology" / machine.name_of_siblings, machine.siblings[i]);
    }
  }
  return root.string();
}

// A virtual machine: one node, two cores.
inline std::string two_cores(const ScratchFolder& folder) {
  return write_machine(folder, {.nodes = {"0-1"}, .siblings = {"0", "1"}});
}

// Two sockets of four cores with two threads each; the second threads are numbered last.
inline std::string two_nodes(const ScratchFolder& folder) {
  return write_machine(folder,
                       {.nodes = {"0-3,8-11", "4-7,12-15"},
                        .siblings = {"0,8",
                                     "1,9",
                                     "2,10",
                                     "3,11",
                                     "4,12",
                                     "5,13",
                                     "6,14",
                                     "7,15",
                                     "0,8",
                                     "1,9",
                                     "2,10",
                                     "3,11",
                                     "4,12",
                                     "5,13",
                                     "6,14",
                                     "7,15"}});
}

// Two nodes of four cores without hyperthreads, of which the last of the first is offline; an older
// kernel.
inline std::string offline_core(const ScratchFolder& folder) {
  return write_machine(folder,
                       {.nodes = {"0-2", "4-7"},
                        .siblings = {"0", "1", "2", "", "4", "5", "6", "7"},
                        .name_of_siblings = "thread_siblings_list"});
}

}  // namespace tenon
