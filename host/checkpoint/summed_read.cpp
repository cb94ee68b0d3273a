// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/summed_read.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace tenon {
namespace {

// Bytes per read. Small enough that a chunk is still in the cache when its checksum is computed.
constexpr uint64_t kReadChunk = uint64_t{2} << 20;
// Minimum size in bytes for a second thread.
constexpr uint64_t kLeastForTwo = 4 * kReadChunk;

class OrderedReads {
 public:
  OrderedReads(CheckpointStore& storage,
               const std::string& checkpoint,
               const std::string& file,
               uint64_t begin,
               std::span<std::byte> out,
               Checksum* sum)
      : storage_(storage),
        checkpoint_(checkpoint),
        file_(file),
        begin_(begin),
        out_(out),
        sum_(sum) {}

  void run() {
    std::thread second;
    if (out_.size() >= kLeastForTwo) {
      try {
        second = std::thread([this] { work(); });
      } catch (const std::system_error&) {  // too many threads: continue with one
      }
    }
    work();
    if (second.joinable()) {
      second.join();
    }
    if (error_ != nullptr) {
      std::rethrow_exception(error_);
    }
  }

 private:
  // Processes chunks until none is left.
  void work() {
    try {
      for (uint64_t i = take(); i * kReadChunk < out_.size(); i = take()) {
        const uint64_t at = i * kReadChunk;
        const auto chunk = out_.subspan(at, std::min<uint64_t>(kReadChunk, out_.size() - at));
        storage_.read(checkpoint_, file_, begin_ + at, chunk);
        if (!wait_for_turn(i)) {
          return;
        }
        if (sum_ != nullptr) {
          sum_->add(chunk);  // one thread at a time, in order
        }
        pass_turn();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (error_ == nullptr) {
        error_ = std::current_exception();
      }
      changed_.notify_all();
    }
  }

  uint64_t take() {
    const std::lock_guard lock(mutex_);
    return next_++;
  }

  // Returns false if the other thread has failed.
  bool wait_for_turn(uint64_t i) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == i || error_ != nullptr; });
    return error_ == nullptr;
  }

  void pass_turn() {
    const std::lock_guard lock(mutex_);
    ++turn_;
    changed_.notify_all();
  }

  CheckpointStore& storage_;
  const std::string& checkpoint_;
  const std::string& file_;
  uint64_t begin_;
  std::span<std::byte> out_;
  Checksum* sum_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0;  // chunk to read
  uint64_t turn_ = 0;  // chunk to add to the checksum
  std::exception_ptr error_;
};

}  // namespace

void read_summed(CheckpointStore& storage,
                 const std::string& checkpoint,
                 const std::string& file,
                 uint64_t begin,
                 std::span<std::byte> out,
                 Checksum* sum) {
  OrderedReads(storage, checkpoint, file, begin, out, sum).run();
}

}  // namespace tenon
