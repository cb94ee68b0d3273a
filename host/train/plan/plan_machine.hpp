// SPDX-License-Identifier: Apache-2.0
//
// What --plan knows about the machines that a run is planned for, and what it takes if it is told
// nothing: for GPUs a large cluster of today, rounded (eight a node, joined by fast links, each
// with a port of 400 Gbit/s to other nodes); for CPUs a rank on a few cores and a network of 10
// Gbit/s.
#pragma once

#include <cstdint>
#include <optional>

namespace tenon {

// The most ranks that can be planned.
inline constexpr int64_t kMostPlannedRanks = 10'000;

struct PlanMachine {
  int64_t ranks_per_node = 8;
  double flops = 400e12;            // a second and rank, as its kernels reach them
  double bandwidth_node = 400e9;    // bytes a second that a rank sends within its node
  double bandwidth_network = 50e9;  // and to another one
  double bandwidth_host = 25e9;     // bytes a second between a device and its host's memory
  double latency = 5e-6;            // seconds from a rank to the next
};

inline constexpr PlanMachine kPlannedGpus = {};
inline constexpr PlanMachine kPlannedCpus = {
    .flops = 100e9, .bandwidth_node = 2e9, .bandwidth_network = 1e9, .latency = 50e-6};

// What was said on the command line.
struct PlanRequest {
  int64_t ranks = 0;
  std::optional<int64_t> ranks_per_node = {};
  std::optional<double> flops = {};
  std::optional<double> bandwidth_node = {};
  std::optional<double> bandwidth_network = {};
  std::optional<double> bandwidth_host = {};
  std::optional<double> latency = {};
  std::optional<int64_t> memory = {};  // bytes that a rank has

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
