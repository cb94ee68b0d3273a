// SPDX-License-Identifier: Apache-2.0
//
// Which of this machine's addresses other ranks can reach it by.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// The names of the interfaces that are up and have an address, "lo" among them.
std::vector<std::string> network_interfaces();

// Errors  distributed.no_interface if there is none of that name: lists those that exist
void check_network_interface(const std::string& name);

// The address of this machine by which `host` is reached: "10.0.0.7", or "127.0.0.1" for itself.
// Nothing is sent.
// Errors  distributed.unreachable if the name is unknown or no network leads there
std::string local_address_towards(const std::string& host, uint16_t port);

// Waits until somebody listens at `host` and `port`; false if nobody does until `end`. A rank
// that comes before the master loses a second or more to c10d's pauses between its tries.
bool wait_for_listener(const std::string& host,
                       uint16_t port,
                       std::chrono::steady_clock::time_point end);

bool is_loopback(const std::string& address);

}  // namespace tenon
