// SPDX-License-Identifier: Apache-2.0
//
// Records the collectives of a world from start to end: their waiters, time limits, bytes sent, and
// whether all collectives were aborted. It moves no data.
// Invariants: a collective ends once, and its result never changes; the log keeps the last kNumKept
// collectives of all groups, oldest first; after `abort`, every wait for an unfinished collective
// throws.
// Threads: any, for all functions.
#pragma once

#include "host/distributed/collectives/collective_record.hpp"
#include "host/distributed/collectives/traffic.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

enum class CollectiveKind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kAllToAll,
  kSend,
  kReceive,
  kControl
};

// "all_reduce", ...
std::string_view name_of(CollectiveKind kind);

// Describes a collective to start: the fields of CollectiveRecord that the caller knows.
struct CollectiveStart {
  CollectiveKind kind = CollectiveKind::kControl;
  std::string group;
  std::string_view what;
  uint64_t number = 0;
  int64_t bytes = 0;       // of the whole tensor
  int64_t bytes_sent = 0;  // by this rank
  std::optional<uint32_t> peer = {};
};

class CollectiveLog {
 public:
  static constexpr size_t kNumKept = 64;

  // One collective, shared by the log, by its waiters and by the engine that ends it.
  class Entry {
   private:
    friend class CollectiveLog;
    CollectiveRecord record;
    std::chrono::steady_clock::time_point began;
    std::chrono::milliseconds limit{};
    std::string failure;
  };
  using EntryPtr = std::shared_ptr<Entry>;

  explicit CollectiveLog(uint32_t rank) : rank_(rank) {}

  // Errors  distributed.failed after `abort`
  EntryPtr begin(const CollectiveStart& start);
  void end(Entry& entry);
  // `why` is the engine's message.
  void fail(Entry& entry, std::string_view why);
  // Returns true if `wait` would return or throw at once.
  bool is_ended(const Entry& entry);
  // Errors  distributed.failed if the collective failed, was aborted or exceeded its time limit
  void wait(Entry& entry);

  // "all_reduce 3 of group "shard" (gradients of block 2)".
  static std::string describe(const Entry& entry);
  // Returns true if each rank may have a different number of elements.
  static bool has_own_counts(const Entry& entry);
  // Returns when the time limit of the collective expires.
  static std::chrono::steady_clock::time_point deadline(const Entry& entry) {
    return entry.began + entry.limit;
  }

  void set_limit(std::chrono::milliseconds limit) { limit_ms_ = limit.count(); }
  std::chrono::milliseconds limit() const { return std::chrono::milliseconds(limit_ms_); }

  // Fails all unfinished and all future collectives. The first reason is kept.
  void abort(const std::string& reason);

  // Allows collectives again after `abort`. Unfinished ones stay failed.
  void restart();

  Traffic traffic() const;
  std::vector<CollectiveRecord> last() const;

 private:
  [[noreturn]] void raise(const Entry& entry, const std::string& why) const;

  const uint32_t rank_;
  std::atomic<int64_t> limit_ms_ = 0;
  std::array<std::atomic<int64_t>, 8> sent_{};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<EntryPtr> last_;
  bool is_aborted_ = false;
  std::string reason_;
};

}  // namespace tenon
