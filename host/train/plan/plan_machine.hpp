// SPDX-License-Identifier: Apache-2.0
//
// Describes the machines that --plan plans for, and their defaults. For GPUs: a large present-day
// cluster, rounded (eight GPUs per node with fast links, each with a 400 Gbit/s port to other
// nodes). For CPUs: a few cores per rank and a 10 Gbit/s network.
#pragma once

#include <cstdint>
#include <optional>

namespace tenon {

// Largest number of ranks that can be planned.
inline constexpr int64_t kMostPlannedRanks = 10'000;

struct PlanMachine {
  int64_t ranks_per_node = 8;
  double flops = 400e12;            // per second and rank, as kernels reach in practice
  double bandwidth_node = 400e9;    // bytes per second that a rank sends within its node
  double bandwidth_network = 50e9;  // bytes per second to other nodes
  double bandwidth_host = 25e9;     // bytes per second between a device and host memory
  double latency = 5e-6;            // seconds from one rank to the next
};

inline constexpr PlanMachine kPlannedGpus = {};
inline constexpr PlanMachine kPlannedCpus = {
    .flops = 100e9, .bandwidth_node = 2e9, .bandwidth_network = 1e9, .latency = 50e-6};

// Values given on the command line.
struct PlanRequest {
  int64_t ranks = 0;
  std::optional<int64_t> ranks_per_node = {};
  std::optional<double> flops = {};
  std::optional<double> bandwidth_node = {};
  std::optional<double> bandwidth_network = {};
  std::optional<double> bandwidth_host = {};
  std::optional<double> latency = {};
  std::optional<int64_t> memory = {};  // bytes per rank
  bool is_longest = false;             // asks for the longest sequence; needs memory
  bool is_program = false;             // asks for the instructions of a microbatch

  PlanMachine on(const PlanMachine& usual) const {
    return {.ranks_per_node = ranks_per_node.value_or(usual.ranks_per_node),
            .flops = flops.value_or(usual.flops),
            .bandwidth_node = bandwidth_node.value_or(usual.bandwidth_node),
            .bandwidth_network = bandwidth_network.value_or(usual.bandwidth_network),
            .bandwidth_host = bandwidth_host.value_or(usual.bandwidth_host),
            .latency = latency.value_or(usual.latency)};
  }

  bool operator==(const PlanRequest&) const = default;
};

}  // namespace tenon
