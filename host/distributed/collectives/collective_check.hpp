// SPDX-License-Identifier: Apache-2.0
//
// Compares what the ranks of a group are about to do, before they do it: a checking mode, since
// each collective then waits for all ranks twice.
// Threads: the train thread alone.
#pragma once

#include "host/distributed/collectives/collective_log.hpp"
#include "host/distributed/collectives/peer_exchange.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace tenon {

class CollectiveCheck {
 public:
  // The exchange is this check's alone.
  explicit CollectiveCheck(std::unique_ptr<PeerExchange> exchange)
      : exchange_(std::move(exchange)) {}

  // `mine` is a line on the collective: what must be equal on all ranks. Waits for all of them.
  // Errors  distributed.mismatch, on all ranks, if two differ: names both. Throws
  //         std::runtime_error if not all ranks come until `deadline`
  void compare(const std::string& mine, std::chrono::steady_clock::time_point deadline);

 private:
  std::unique_ptr<PeerExchange> exchange_;
  uint64_t num_compared_ = 0;
};

// Compares what `entry` begins if there is a check; whatever comes of it fails the entry too.
// Errors  distributed.mismatch; distributed.failed if not all ranks come
void compare_before(CollectiveLog& log,
                    CollectiveLog::Entry& entry,
                    CollectiveCheck* check,
                    const at::Tensor& whole);

}  // namespace tenon
