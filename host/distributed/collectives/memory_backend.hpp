// SPDX-License-Identifier: Apache-2.0
//
// A backend of c10d among ranks of one machine: what a rank sends it writes into memory that it
// shares with the receiver, who copies it to where it is to be. No separate thread moves
// anything: what fits is written by whoever sends, the rest and all that arrives by those who wait.
// It knows `send`, `recv` and `abort` alone, which is what peer_exchange.hpp needs.
// Invariants: the memory has no name outside of the processes that use it, so nothing of it stays
// however they end; a rank whose process has ended, or which has given up, is noticed by those who
// wait for it; messages of two ranks are matched by their tags.
// Threads: any, for all functions.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace tenon {

// Equal for processes that may share memory with each other. "" where this one cannot, with anyone.
std::string memory_neighbourhood();

// How much of it each rank has, for all that the others send it.
enum class MemoryRoom { kForTensors, kForWords };

// A backend for `size` ranks of one neighbourhood, which meet in `store`. Null on all of them where
// one cannot open another's memory after all.
// Throws what the store throws, where not all come.
c10::intrusive_ptr<c10d::Backend> make_memory_backend(c10d::Store& store,
                                                      uint32_t rank,
                                                      uint32_t size,
                                                      MemoryRoom room,
                                                      std::chrono::milliseconds timeout);

}  // namespace tenon
