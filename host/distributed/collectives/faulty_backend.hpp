// SPDX-License-Identifier: Apache-2.0
//
// A bad network, for tests and measurements: a backend of c10d in front of another one, which lets
// what this rank sends arrive late, or cuts the rank off. It is asked for by
// TENON_TEST_COLLECTIVES:
//
//   delay_ms=5            everything this rank sends leaves 5 ms later; the caller does not wait,
//   and
//                         what is under way at one time is late by 5 ms together
//   drop_after=40,rank=1  after rank 1 has sent 40 tensors, nothing leaves it or reaches it any
//   more
//
// Parts are joined by commas; `rank` limits all to that rank.
// Threads: any.
#pragma once

#include "host/distributed/ranks/store.hpp"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace tenon {

// What is asked for, and the thread that sends late: one for all backends of a world.
class NetworkFaults;

// Reads the variable of this process. Null if nothing is asked of this rank.
// Errors  distributed.bad_environment if it cannot be read
std::shared_ptr<NetworkFaults> read_network_faults(uint32_t rank);

// `store` as a rank has it that may be cut off: a call is then never answered, and given up after
// `limit`.
std::unique_ptr<Store> make_faulty_store(std::unique_ptr<Store> store,
                                         std::shared_ptr<NetworkFaults> faults,
                                         std::function<std::chrono::milliseconds()> limit);

c10::intrusive_ptr<c10d::Backend> make_faulty_backend(c10::intrusive_ptr<c10d::Backend> backend,
                                                      std::shared_ptr<NetworkFaults> faults);

}  // namespace tenon
