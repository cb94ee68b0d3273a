// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a group send each other directly, over a backend of c10d that has `send` and
// `recv`: the one step that all collectives on the CPU are made of. Nothing is copied: a tensor is
// written where it is to be. What goes where, and in which order, is backend_group.cpp's.
// Threads: any; a started exchange is waited for by one of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace tenon {

// A tensor that goes to `peer`, or comes from it: a rank of the group.
struct PeerTensor {
  uint32_t peer = 0;
  at::Tensor tensor;
};

// Under way. May be given up at any time: its tensors live until the backend lets go of them.
class StartedExchange {
 public:
  // Throws std::runtime_error, which names the ranks that were silent until `deadline` or whose
  // connection was closed.
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
  // `ranks` are the group's in the world, for messages. The backend must outlive this.
  PeerExchange(c10d::Backend& backend, std::span<const uint32_t> ranks)
      : backend_(backend), ranks_(ranks.begin(), ranks.end()) {}

  uint32_t rank() const { return static_cast<uint32_t>(backend_.getRank()); }
  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  uint32_t rank_in_world(uint32_t rank) const { return ranks_[rank]; }
  c10d::Backend& backend() { return backend_; }

  // Begins to receive and to send. `tag` is of this exchange alone, and equal on all ranks; tensors
  // without elements are skipped, on both sides.
  StartedExchange start(uint64_t tag,
                        const std::vector<PeerTensor>& receive,
                        const std::vector<PeerTensor>& send);

 private:
  c10d::Backend& backend_;
  std::vector<uint32_t> ranks_;
  std::mutex mutex_;  // of calls to the backend
};

}  // namespace tenon
