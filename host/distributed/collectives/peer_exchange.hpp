// SPDX-License-Identifier: Apache-2.0
//
// Direct exchange of tensors between the ranks of a group, over a c10d backend with `send` and
// `recv`: the one step from which all collectives on the CPU are built. Nothing is copied: a tensor
// is written at its destination. peer_group.cpp decides what goes where, and in which order.
// Threads: any; one thread waits for a started exchange.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace tenon {

// A tensor that is sent to or received from `peer`, a rank of the group.
struct PeerTensor {
  uint32_t peer = 0;
  at::Tensor tensor;
};

// An exchange in progress. It may be dropped at any time: its tensors live until the backend
// releases them.
class StartedExchange {
 public:
  // Throws std::runtime_error, which names the ranks that did not answer before `deadline`, or the
  // rank whose connection was closed.
  void wait(std::chrono::steady_clock::time_point deadline);

 private:
  friend class PeerExchange;
  struct Half {
    uint32_t peer;  // a rank of the world
    c10::intrusive_ptr<c10d::Work> work;
  };
  std::vector<Half> halves_;
};

class PeerExchange {
 public:
  // `ranks` are the group's ranks in the world, for messages. The backend must outlive this object.
  PeerExchange(c10d::Backend& backend, std::span<const uint32_t> ranks)
      : backend_(backend), ranks_(ranks.begin(), ranks.end()) {}

  uint32_t rank() const { return static_cast<uint32_t>(backend_.getRank()); }
  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  uint32_t rank_in_world(uint32_t rank) const { return ranks_[rank]; }
  c10d::Backend& backend() { return backend_; }

  // Starts receiving and sending. `tag` is unique to this exchange, and equal on all ranks. Tensors
  // without elements are skipped on both sides.
  StartedExchange start(uint64_t tag,
                        const std::vector<PeerTensor>& receive,
                        const std::vector<PeerTensor>& send);

 private:
  c10d::Backend& backend_;
  std::vector<uint32_t> ranks_;
  std::mutex mutex_;  // guards calls to the backend
};

}  // namespace tenon
