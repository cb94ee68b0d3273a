// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads that hold the parts of sequences, with a mailbox in memory.
#pragma once

#include "host/kernels/sequence_parts.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tenon {

// What the ranks send each other. A rank that fails ends the waits of the others.
class Mailbox {
 public:
  struct Letter {
    at::Tensor send;
    std::vector<int64_t> counts;
    std::string what;
  };

  explicit Mailbox(uint32_t size) : letters_(size) {}

  void post(uint32_t rank, Letter letter) {
    const std::lock_guard lock(mutex_);
    for (uint32_t to = 0; to < letters_.size(); ++to) {
      elements_[letter.what] += to == rank ? 0 : letter.counts[to];
    }
    calls_[letter.what] += 1;
    letters_[rank] = std::move(letter);
  }
  const Letter& of(uint32_t rank) const { return letters_[rank]; }

  // Waits for all ranks.
  void wait() {
    std::unique_lock lock(mutex_);
    const int64_t now = round_;
    if (++waiting_ == static_cast<int64_t>(letters_.size())) {
      waiting_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return round_ != now || has_failed_; });
    if (round_ == now) {
      throw std::runtime_error("another rank failed");
    }
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    has_failed_ = true;
    changed_.notify_all();
  }

  // Elements sent to other ranks, and calls of all ranks, by what they were.
  std::map<std::string, int64_t> elements() const { return elements_; }
  std::map<std::string, int64_t> calls() const { return calls_; }
  int64_t all_elements() const {
    return std::accumulate(elements_.begin(), elements_.end(), int64_t{0}, [](int64_t n, auto& e) {
      return n + e.second;
    });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Letter> letters_;
  std::map<std::string, int64_t> elements_;
  std::map<std::string, int64_t> calls_;
  int64_t waiting_ = 0;
  int64_t round_ = 0;
  bool has_failed_ = false;
};

// For the threads of ranks, where Catch2 may not check. Ends the test case.
inline void expect(bool is_true, const std::string& what) {
  if (!is_true) {
    throw std::runtime_error("expected that " + what);
  }
}

class MailboxRanks : public SequenceRanks {
 public:
  MailboxRanks(Mailbox& box, uint32_t rank, uint32_t size) : box_(&box), rank_(rank), size_(size) {}

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return size_; }
  void exchange(at::Tensor& receive,
                std::span<const int64_t> receive_counts,
                const at::Tensor& send,
                std::span<const int64_t> send_counts,
                std::string_view what) override {
    box_->post(rank_, {send, {send_counts.begin(), send_counts.end()}, std::string(what)});
    box_->wait();
    int64_t to = 0;
    for (uint32_t r = 0; r < size_; ++r) {
      const Mailbox::Letter& letter = box_->of(r);
      const int64_t n = letter.counts[rank_];
      const int64_t from =
          std::accumulate(letter.counts.begin(), letter.counts.begin() + rank_, int64_t{0});
      if (letter.what != what || n != receive_counts[r] ||
          letter.send.scalar_type() != receive.scalar_type()) {
        throw std::runtime_error("rank " + std::to_string(r) + " sent " + std::to_string(n) + " " +
                                 letter.what + ", not " + std::to_string(receive_counts[r]) + " " +
                                 std::string(what));
      }
      receive.narrow(0, to, n).copy_(letter.send.narrow(0, from, n));
      to += n;
    }
    if (to != receive.numel()) {
      throw std::runtime_error("counts do not fill what is received");
    }
    box_->wait();
  }

 private:
  Mailbox* box_;
  uint32_t rank_;
  uint32_t size_;
};

// Runs `body` on a thread for each rank, with one thread for products. Rethrows the error of a rank
// that failed first.
inline void run_sequence_ranks(Mailbox& box,
                               ContextBy by,
                               const std::vector<int64_t>& lengths,
                               const std::function<void(const SequenceParts& parts)>& body) {
  const int num_threads = at::get_num_threads();
  const auto size = static_cast<uint32_t>(lengths.size());
  std::mutex mutex;
  std::exception_ptr first_error;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      MailboxRanks ranks(box, rank, size);
      const SequenceParts parts{.ranks = &ranks, .by = by, .lengths = lengths};
      try {
        body(parts);
      } catch (...) {
        const std::lock_guard lock(mutex);
        first_error = first_error ? first_error : std::current_exception();
        box.fail();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  at::set_num_threads(num_threads);
  if (first_error) {
    std::rethrow_exception(first_error);
  }
}

}  // namespace tenon
