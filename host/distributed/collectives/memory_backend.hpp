// SPDX-License-Identifier: Apache-2.0
//
// A c10d backend for ranks of one machine. A rank writes its data into memory that it shares with
// the receiver, and the receiver copies the data to its destination. No separate thread moves data.
// The sender writes as much as fits; waiting threads write the rest, and read all data that
// arrives. The backend implements only `send`, `recv` and `abort`, which peer_exchange.hpp needs.
// Invariants: the memory has no name outside the processes that use it, so nothing remains however
// they end; waiting ranks notice if the process of another rank has ended, or if that rank has
// aborted; messages of two ranks are matched by their tags.
// Threads: any, for all functions.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace tenon {

// Returns an id that is equal in processes that may share memory with each other; "" if this
// process cannot share memory.
std::string memory_neighbourhood();

// Size class of each rank's inbox: large for tensors, small for control messages.
enum class MemoryRoom { kForTensors, kForWords };

// Creates a backend for `size` ranks of one neighborhood, which meet in `store`. Returns null on
// all ranks if one rank cannot open the memory of another.
// Throws the store's exception if not all ranks arrive.
c10::intrusive_ptr<c10d::Backend> make_memory_backend(c10d::Store& store,
                                                      uint32_t rank,
                                                      uint32_t size,
                                                      MemoryRoom room,
                                                      std::chrono::milliseconds timeout);

}  // namespace tenon
