// SPDX-License-Identifier: Apache-2.0
//
// Messages among the ranks that divide the positions of the same samples. Loaders decide what the
// messages are; a class that knows the ranks implements the exchange.
// Threads: the thread of the loaders. Every rank calls send and receive for the same messages, in
// the same order.

#pragma once

#include "host/error/error.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <span>

namespace tenon {

class PartExchange {
 public:
  virtual ~PartExchange() = default;

  // Sends each other rank its message. Returns when all have been sent.
  //
  // Shapes   messages: by rank, each u8 [n] in CPU memory; that of this rank is ignored
  // Errors   distributed.failed if a rank is lost or the time limit expires
  virtual void send(std::span<const at::Tensor> messages) = 0;
  // Waits for the message of a rank, and returns it in memory for batches.
  //
  // Shapes   the result u8 [n]
  // Errors   as send
  virtual at::Tensor receive(int64_t from) = 0;
  // Returns the error that all ranks report if the read of one rank throws `failure`.
  virtual Error error_of(const std::exception& failure) const = 0;
};

}  // namespace tenon
