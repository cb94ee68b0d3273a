// SPDX-License-Identifier: Apache-2.0
//
// A bad network, for tests and measurements: a c10d backend that wraps another one, and delays the
// tensors that this rank sends, or cuts the rank off. TENON_TEST_COLLECTIVES enables it:
//
//   delay_ms=5            each tensor that this rank sends leaves 5 ms later, without blocking the
//                         caller; concurrent sends share one delay of 5 ms
//   drop_after=40,rank=1  after rank 1 has sent 40 tensors, nothing leaves it or reaches it
//
// Parts are separated by commas; `rank` limits all parts to that rank.
// Threads: any.
#pragma once

#include "host/distributed/ranks/store.hpp"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace tenon {

// The requested faults, and the thread that sends late. All backends of a world share one object.
class NetworkFaults;

// Reads TENON_TEST_COLLECTIVES. Returns null if it requests nothing for this rank.
// Errors  distributed.bad_environment if the value is invalid
std::shared_ptr<NetworkFaults> read_network_faults(uint32_t rank);

// Wraps `store` for a rank that may be cut off: calls then get no answer, and fail after `limit`.
std::unique_ptr<Store> make_faulty_store(std::unique_ptr<Store> store,
                                         std::shared_ptr<NetworkFaults> faults,
                                         std::function<std::chrono::milliseconds()> limit);

c10::intrusive_ptr<c10d::Backend> make_faulty_backend(c10::intrusive_ptr<c10d::Backend> backend,
                                                      std::shared_ptr<NetworkFaults> faults);

}  // namespace tenon
