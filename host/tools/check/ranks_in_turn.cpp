// SPDX-License-Identifier: Apache-2.0
//
// Letters in comments: n ranks, k elements.
#include "host/tools/check/ranks_in_turn.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Whose turn it is, and the tensors that ranks put down for each other.
class Turns {
 public:
  explicit Turns(uint32_t size) : num_calls_(size), has_ended_(size) {}

  uint32_t size() const { return static_cast<uint32_t>(num_calls_.size()); }

  void wait_for_first_turn(uint32_t rank) {
    std::unique_lock lock(mutex_);
    wait_for_turn(lock, rank);
  }

  // Puts down a tensor, and returns those of all ranks for the same call.
  // Errors  distributed.failed if a rank has failed, or makes another call
  std::vector<at::Tensor> exchange(uint32_t rank, std::string_view what, const at::Tensor& tensor) {
    std::unique_lock lock(mutex_);
    fail_with_others();
    const uint64_t number = num_calls_[rank]++;
    Call& call = calls_[number];
    if (call.what.empty()) {
      call = {.what = std::string(what), .first = rank, .tensors = std::vector<at::Tensor>(size())};
    } else if (call.what != what) {
      disagree(
          formatted("rank {} sends \"{}\", rank {} \"{}\"", call.first, call.what, rank, what));
    }
    call.tensors[rank] = tensor.detach().clone();
    while (!is_complete(call)) {
      for (uint32_t other = 0; other < size(); ++other) {
        if (has_ended_[other] && !call.tensors[other].defined()) {
          disagree(formatted("rank {} sends \"{}\", rank {} does not", rank, what, other));
        }
      }
      pass_turn(rank);
      wait_for_turn(lock, rank);
      fail_with_others();
    }
    std::vector<at::Tensor> all = call.tensors;
    if (++call.num_taken == size()) {
      calls_.erase(number);
    }
    return all;
  }

  // What a rank received is not what another sent.
  [[noreturn]] void disagree_on(std::string_view what) {
    const std::lock_guard lock(mutex_);
    disagree(formatted("ranks send other numbers of \"{}\" than others expect", what));
  }

  // Ends a rank. `error` is what it threw, or null.
  void end(uint32_t rank, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error != nullptr && !has_failed_) {
      has_failed_ = true;
      error_ = std::move(error);
    }
    has_ended_[rank] = true;
    pass_turn(rank);
  }

  const std::string& disagreement() const { return disagreement_; }
  const std::exception_ptr& error() const { return error_; }

 private:
  struct Call {
    std::string what;
    uint32_t first = 0;
    std::vector<at::Tensor> tensors;  // by rank; undefined: not put down yet
    uint32_t num_taken = 0;
  };

  static bool is_complete(const Call& call) {
    return std::ranges::all_of(call.tensors, &at::Tensor::defined);
  }
  void wait_for_turn(std::unique_lock<std::mutex>& lock, uint32_t rank) {
    changed_.wait(lock, [&] { return turn_ == rank; });
  }
  void pass_turn(uint32_t rank) {
    for (uint32_t i = 1; i <= size(); ++i) {
      const uint32_t next = (rank + i) % size();
      if (!has_ended_[next]) {
        turn_ = next;
        break;
      }
    }
    changed_.notify_all();
  }
  void fail_with_others() const {
    if (has_failed_) {
      throw Error("distributed.failed", "another rank failed");
    }
  }
  [[noreturn]] void disagree(std::string how) {
    has_failed_ = true;
    disagreement_ = std::move(how);
    throw Error("distributed.failed", disagreement_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t turn_ = 0;
  std::vector<uint64_t> num_calls_;  // by rank
  std::vector<bool> has_ended_;      // by rank
  std::map<uint64_t, Call> calls_;   // by number; not yet taken by all ranks
  bool has_failed_ = false;
  std::string disagreement_;
  std::exception_ptr error_;
};

class DoneWork final : public Work {
 public:
  bool is_done() override { return true; }
  void wait() override {}
};

class DoneGathering final : public Gathering {
 public:
  explicit DoneGathering(at::Tensor all) : all_(std::move(all)) {}
  std::span<const std::byte> wait() override {
    return {static_cast<const std::byte*>(all_.const_data_ptr()),
            static_cast<std::size_t>(all_.numel())};
  }

 private:
  at::Tensor all_;  // [n * k] u8
};

at::Tensor sum_of(const std::vector<at::Tensor>& all) {
  at::Tensor sum = all.front().clone();
  for (std::size_t r = 1; r < all.size(); ++r) {
    sum.add_(all[r]);
  }
  return sum;
}

class TurnGroup final : public Group {
 public:
  TurnGroup(Turns& turns, uint32_t rank) : turns_(turns), rank_(rank) {}

  using Group::all_reduce;

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return turns_.size(); }

  std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                          std::string_view what) override {
    const at::Tensor bytes = at::empty({static_cast<int64_t>(mine.size())}, at::kByte);
    std::ranges::copy(mine, static_cast<std::byte*>(bytes.data_ptr()));
    return std::make_unique<DoneGathering>(at::cat(turns_.exchange(rank_, what, bytes)));
  }

  std::unique_ptr<Work> all_reduce(at::Tensor& whole, std::string_view what) override {
    whole.copy_(sum_of(turns_.exchange(rank_, what, whole)));
    return done();
  }

  std::unique_ptr<Work> all_gather(at::Tensor& whole,
                                   const at::Tensor& part,
                                   std::string_view what) override {
    whole.copy_(at::cat(turns_.exchange(rank_, what, part)));
    return done();
  }

  std::unique_ptr<Work> reduce_scatter(at::Tensor& part,
                                       const at::Tensor& whole,
                                       std::string_view what) override {
    std::vector<at::Tensor> pieces;
    for (const at::Tensor& one : turns_.exchange(rank_, what, whole)) {
      pieces.push_back(
          one.narrow(0, rank_ * part.numel(), part.numel()).to(part.scalar_type(), false, true));
    }
    part.copy_(sum_of(pieces));
    return done();
  }

  std::unique_ptr<Work> broadcast(at::Tensor& whole,
                                  uint32_t root,
                                  std::string_view what) override {
    whole.copy_(turns_.exchange(rank_, what, whole)[root]);
    return done();
  }

  std::unique_ptr<Work> all_to_all(at::Tensor& receive,
                                   std::span<const int64_t> receive_counts,
                                   const at::Tensor& send,
                                   std::span<const int64_t> send_counts,
                                   std::string_view what) override {
    const at::Tensor counts = at::empty({size()}, at::kLong);
    std::ranges::copy(send_counts, counts.mutable_data_ptr<int64_t>());
    const std::vector<at::Tensor> counts_of = turns_.exchange(rank_, what, counts);
    const std::vector<at::Tensor> sent = turns_.exchange(rank_, what, send.flatten());
    std::vector<at::Tensor> pieces;
    for (uint32_t r = 0; r < size(); ++r) {
      const int64_t* const of = counts_of[r].const_data_ptr<int64_t>();
      if (of[rank_] != receive_counts[r] || sent[r].scalar_type() != receive.scalar_type()) {
        turns_.disagree_on(what);
      }
      int64_t before = 0;
      for (uint32_t to = 0; to < rank_; ++to) {
        before += of[to];
      }
      pieces.push_back(sent[r].narrow(0, before, of[rank_]));
    }
    receive.copy_(at::cat(pieces).view_as(receive));
    return done();
  }

  std::unique_ptr<Work> send(const at::Tensor&, uint32_t, std::string_view) override {
    TENON_ASSERT(false, "ranks in turn exchange with all ranks");
    return nullptr;
  }
  std::unique_ptr<Work> receive(at::Tensor&, uint32_t, std::string_view) override {
    TENON_ASSERT(false, "ranks in turn exchange with all ranks");
    return nullptr;
  }

 private:
  static std::unique_ptr<Work> done() { return std::make_unique<DoneWork>(); }

  Turns& turns_;
  const uint32_t rank_;
};

}  // namespace

std::string run_ranks_in_turn(uint32_t size, const std::function<void(Group& ranks)>& body) {
  Turns turns(size);
  {
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&turns, &body, rank] {
        turns.wait_for_first_turn(rank);
        std::exception_ptr error;
        try {
          TurnGroup group(turns, rank);
          body(group);
        } catch (...) {  // thrown again below, by the thread that waits
          error = std::current_exception();
        }
        turns.end(rank, std::move(error));
      });
    }
  }
  if (turns.disagreement().empty() && turns.error() != nullptr) {
    std::rethrow_exception(turns.error());
  }
  return turns.disagreement();
}

}  // namespace tenon
