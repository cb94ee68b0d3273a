// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a tensor group as threads of one process, which exchange tensors in memory.
#pragma once

#include "host/kernels/tensor_region.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace tenon {

// Where the ranks exchange tensors. It refuses calls of different names or shapes, and ends the
// waits of all ranks if one fails, or does not call within the time limit.
class TensorBoard {
 public:
  struct Call {
    std::string what;
    std::vector<at::Tensor> tensors;
  };

  explicit TensorBoard(uint32_t size, std::chrono::seconds limit = std::chrono::seconds(120))
      : limit_(limit), now_(size) {}

  uint32_t size() const { return static_cast<uint32_t>(now_.size()); }

  // Returns what all ranks pass, in rank order.
  std::vector<Call> exchange(uint32_t rank, Call mine) {
    std::unique_lock lock(mutex_);
    throw_if_failed();
    const uint64_t round = round_;
    now_[rank] = std::move(mine);
    if (++arrived_ == now_.size()) {
      end_round();
    } else if (!changed_.wait_for(lock, limit_, [&] { return round_ != round || has_failed(); })) {
      failure_ = "rank " + std::to_string(rank) + " waits too long in " + now_[rank].what;
      changed_.notify_all();
    }
    if (round_ == round) {
      throw_if_failed();
    }
    return last_;
  }

  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!has_failed()) {
      failure_ = why;
    }
    changed_.notify_all();
  }

  // The names of the calls so far. Ask once the ranks have ended.
  const std::vector<std::string>& calls() const { return calls_; }
  // Elements that a rank passed, in all calls.
  int64_t elements() const { return elements_; }

 private:
  bool has_failed() const { return !failure_.empty(); }

  void throw_if_failed() const {
    if (has_failed()) {
      throw std::runtime_error(failure_);
    }
  }

  static bool is_same_call(const Call& a, const Call& b) {
    return a.what == b.what &&
           std::ranges::equal(a.tensors, b.tensors, [](const at::Tensor& x, const at::Tensor& y) {
             return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type();
           });
  }

  void end_round() {
    for (size_t r = 1; r < now_.size() && !has_failed(); ++r) {
      if (!is_same_call(now_[0], now_[r])) {
        failure_ = "rank 0 is in " + described(now_[0]) + ", rank " + std::to_string(r) + " in " +
                   described(now_[r]);
      }
    }
    if (!has_failed()) {
      calls_.push_back(now_[0].what);
      for (const at::Tensor& x : now_[0].tensors) {
        elements_ += x.numel();
      }
      last_ = now_;
      arrived_ = 0;
      ++round_;
    }
    changed_.notify_all();
  }

  static std::string described(const Call& call) {
    return call.what + " of " + c10::str(call.tensors.front().sizes());
  }

  std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> now_;
  std::vector<Call> last_;
  size_t arrived_ = 0;
  uint64_t round_ = 0;
  std::string failure_;
  std::vector<std::string> calls_;
  int64_t elements_ = 0;
};

class ThreadTensorRanks final : public TensorRanks {
 public:
  ThreadTensorRanks(TensorBoard& board, uint32_t rank) : board_(&board), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return board_->size(); }

  void sum(at::Tensor& whole, std::string_view what) override {
    whole.copy_(sum_of(exchange({whole}, what), 0));
  }

  void max(at::Tensor& whole, std::string_view what) override {
    for (const TensorBoard::Call& call : exchange({whole}, what)) {
      whole.copy_(at::maximum(whole, call.tensors[0]));
    }
  }

  std::vector<at::Tensor> gather(const at::Tensor& part, std::string_view what) override {
    std::vector<at::Tensor> parts;
    for (const TensorBoard::Call& call : exchange({part}, what)) {
      parts.push_back(call.tensors[0].clone());
    }
    return parts;
  }

  at::Tensor sum_scatter(const std::vector<at::Tensor>& for_ranks, std::string_view what) override {
    return sum_of(exchange(for_ranks, what), rank_);
  }

 private:
  std::vector<TensorBoard::Call> exchange(const std::vector<at::Tensor>& tensors,
                                          std::string_view what) {
    TensorBoard::Call mine{.what = std::string(what), .tensors = {}};
    for (const at::Tensor& x : tensors) {
      if (x.requires_grad() || !x.is_contiguous()) {
        throw std::runtime_error("a rank passes a tensor with a gradient or strides");
      }
      mine.tensors.push_back(x.clone());
    }
    return board_->exchange(rank_, std::move(mine));
  }

  static at::Tensor sum_of(const std::vector<TensorBoard::Call>& calls, size_t i) {
    const at::ScalarType dtype = calls[0].tensors[i].scalar_type();
    const bool is_narrow = dtype == at::kBFloat16 || dtype == at::kHalf;
    at::Tensor sum = at::zeros_like(calls[0].tensors[i],
                                    at::TensorOptions().dtype(is_narrow ? at::kFloat : dtype));
    for (const TensorBoard::Call& call : calls) {
      sum.add_(call.tensors[i]);
    }
    return sum.to(dtype);
  }

  TensorBoard* board_;
  uint32_t rank_;
};

// Runs `body` on a thread for each rank, with the rank's region, which is not in scope, and one
// thread for products. Rethrows the error of a rank that failed first.
// Shapes  pieces [board.size()]; empty: all ranks hold all positions
inline void run_tensor_ranks(TensorBoard& board,
                             const std::vector<int64_t>& pieces,
                             const std::function<void(const TensorRegionPtr& region)>& body) {
  const int num_threads = at::get_num_threads();
  std::mutex mutex;
  std::exception_ptr first_error;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < board.size(); ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      ThreadTensorRanks ranks(board, rank);
      const auto region = c10::make_intrusive<TensorRegion>();
      region->ranks = &ranks;
      region->block = "layers.3";
      region->pieces = pieces;
      try {
        body(region);
      } catch (...) {
        {
          const std::lock_guard lock(mutex);
          first_error = first_error ? first_error : std::current_exception();
        }
        board.fail("another rank failed");
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
