// SPDX-License-Identifier: Apache-2.0
//
// Checking mode: compares the collectives that the ranks of a group are about to start. Each
// collective then waits for all ranks twice.
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
  // Only this check may use `exchange`.
  explicit CollectiveCheck(std::unique_ptr<PeerExchange> exchange)
      : exchange_(std::move(exchange)) {}

  // Compares `mine`, a line that describes the collective, with the lines of all other ranks, which
  // must be equal. Waits for all ranks.
  // Errors  distributed.mismatch, on all ranks, if two lines differ: names both. Throws
  //         std::runtime_error if not all ranks arrive before `deadline`
  void compare(const std::string& mine, std::chrono::steady_clock::time_point deadline);

 private:
  std::unique_ptr<PeerExchange> exchange_;
  uint64_t num_compared_ = 0;
};

// Compares the collective of `entry` across ranks if `check` is not null. A failure also fails the
// entry.
// Errors  distributed.mismatch; distributed.failed if not all ranks arrive in time
void compare_before(CollectiveLog& log,
                    CollectiveLog::Entry& entry,
                    CollectiveCheck* check,
                    const at::Tensor& whole);

}  // namespace tenon
