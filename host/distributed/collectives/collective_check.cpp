// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/collective_check.hpp"

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/text/formatted.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

constexpr int64_t kLineBytes = 256;

}  // namespace

void CollectiveCheck::compare(const std::string& mine,
                              std::chrono::steady_clock::time_point deadline) {
  const uint32_t size = exchange_->size();
  const uint32_t rank = exchange_->rank();
  const at::Tensor lines = at::zeros({size, kLineBytes}, at::kByte);
  const at::Tensor own = lines.select(0, rank);
  std::memcpy(own.mutable_data_ptr(),
              mine.data(),
              std::min<size_t>(mine.size(), static_cast<size_t>(kLineBytes - 1)));
  std::vector<PeerTensor> receive;
  std::vector<PeerTensor> send;
  for (uint32_t i = 1; i < size; ++i) {
    const uint32_t peer = (rank + i) % size;
    receive.push_back({peer, lines.select(0, peer)});
    send.push_back({peer, own});
  }
  exchange_->start(++num_compared_, receive, send).wait(deadline);
  const auto line_of = [&](uint32_t one) {
    return std::string(static_cast<const char*>(lines.const_data_ptr()) + one * kLineBytes);
  };
  for (uint32_t other = 1; other < size; ++other) {
    if (line_of(other) != line_of(0)) {
      throw Error("distributed.mismatch",
                  formatted("ranks of one group begin different collectives: rank {} begins {}, "
                            "rank {} begins {}; check hooks and plugins whose control flow "
                            "depends on the rank",
                            exchange_->rank_in_world(0),
                            line_of(0),
                            exchange_->rank_in_world(other),
                            line_of(other)));
    }
  }
}

void compare_before(CollectiveLog& log,
                    CollectiveLog::Entry& entry,
                    CollectiveCheck* check,
                    const at::Tensor& whole) {
  if (check == nullptr) {
    return;
  }
  try {
    const std::string count =
        CollectiveLog::has_own_counts(entry) ? "" : formatted("{} of ", whole.numel());
    check->compare(log.describe(entry) + " (" + count + at::toString(whole.scalar_type()) + ")",
                   CollectiveLog::deadline(entry));
  } catch (const Error& error) {
    log.fail(entry, error.message());
    throw;
  } catch (const std::exception& error) {
    log.fail(entry, "before it began, " + std::string(what_without_backtrace(error.what())));
    log.wait(entry);  // throws
  }
}

}  // namespace tenon
