// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/peer_exchange.hpp"

#include "host/distributed/ranks/awake_clock.hpp"
#include "host/error/status.hpp"
#include "host/text/formatted.hpp"
#include "host/text/rank_list.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tenon {
namespace {

// Tags are non-negative ints.
constexpr uint64_t kNumTags = uint64_t{1} << 31;

}  // namespace

StartedExchange PeerExchange::start(uint64_t tag,
                                    const std::vector<PeerTensor>& receive,
                                    const std::vector<PeerTensor>& send) {
  const int gloo_tag = static_cast<int>(tag % kNumTags);
  StartedExchange exchange;
  const std::lock_guard lock(mutex_);
  // Receives are started first, so that a sender that is ready need not ask twice.
  for (const auto& [peer, tensor] : receive) {
    if (tensor.numel() > 0) {
      std::vector<at::Tensor> one{tensor};
      exchange.halves_.push_back(
          {ranks_[peer], backend_.recv(one, static_cast<int>(peer), gloo_tag)});
    }
  }
  for (const auto& [peer, tensor] : send) {
    if (tensor.numel() > 0) {
      std::vector<at::Tensor> one{tensor};
      exchange.halves_.push_back(
          {ranks_[peer], backend_.send(one, static_cast<int>(peer), gloo_tag)});
    }
  }
  return exchange;
}

void StartedExchange::wait(std::chrono::steady_clock::time_point deadline) {
  std::vector<uint32_t> silent;
  for (const Half& half : halves_) {
    const auto left = std::max(
        std::chrono::milliseconds(1),
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - AwakeClock::now()));
    try {
      half.work->wait(left);
    } catch (const std::exception& error) {
      const std::string why(what_without_backtrace(error.what()));
      // Gloo reports "Timed out" for the first failure, and "Application timeout" for connections
      // that it then closes.
      if (why.find("imed out") == std::string::npos && why.find("timeout") == std::string::npos) {
        throw std::runtime_error(
            formatted("the connection to rank {} was closed ({})", half.peer, why));
      }
      if (std::ranges::find(silent, half.peer) == silent.end()) {
        silent.push_back(half.peer);
      }
    }
  }
  halves_.clear();
  if (!silent.empty()) {
    std::ranges::sort(silent);
    throw std::runtime_error("no answer from " + rank_list(silent));
  }
}

}  // namespace tenon
