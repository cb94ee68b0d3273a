// SPDX-License-Identifier: Apache-2.0
//
// The addresses of this machine at which other ranks can reach it. Names that are unknown are
// looked up again until a time limit.
#pragma once

#include "host/distributed/ranks/awake_clock.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// Returns the names of the interfaces that are up and have an address, including "lo".
std::vector<std::string> network_interfaces();

// Errors  distributed.no_interface if no interface has that name; lists the available interfaces
void check_network_interface(const std::string& name);

// Returns the address of this machine from which it reaches `host`: "10.0.0.7", or "127.0.0.1" for
// the machine itself. Sends nothing.
// Errors  distributed.unreachable if the name cannot be resolved before `end`, or no network reaches the host
std::string local_address_towards(const std::string& host,
                                  uint16_t port,
                                  AwakeClock::time_point end);

// Returns the address that `host` resolves to, IPv4 if there is one: "127.0.1.1".
// Errors  distributed.unreachable if the name cannot be resolved before `end`
std::string address_of(const std::string& host, uint16_t port, AwakeClock::time_point end);

// Connects to the program at `host` and `port`, waiting for it if need be. Returns a non-blocking
// socket, or -1 if none listens before `end`.
// Errors  distributed.unreachable if the name cannot be resolved before `end`
int connect_to(const std::string& host, uint16_t port, AwakeClock::time_point end);

// Waits until a program listens at `host` and `port`; returns false if none does before `end`.
// Without this wait, a rank that starts before the master loses a second or more to the pauses
// between c10d's attempts.
bool wait_for_listener(const std::string& host, uint16_t port, AwakeClock::time_point end);

bool is_loopback(const std::string& address);

}  // namespace tenon
