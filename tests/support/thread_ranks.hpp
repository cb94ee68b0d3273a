// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are threads of one process: collectives and groups over plain memory, for tests of
// what is done with them. Works are finished where they are waited for.
#pragma once

#include "host/distributed/collectives/collective.hpp"
#include "host/distributed/collectives/group.hpp"

#include <ATen/Functions.h>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"  // after libtorch, which has a CHECK of its own

namespace tenon {

// What each of `size` members has put down for call number n; all of them read all of it.
template <class T>
class MeetingPoint {
 public:
  explicit MeetingPoint(uint32_t size) : size_(size) {}

  void put(uint64_t number, uint32_t rank, T value) {
    const std::lock_guard lock(mutex_);
    auto& place = places_[number];
    place.resize(size_);
    place[rank] = std::make_unique<T>(std::move(value));
    arrived_.notify_all();
  }

  std::vector<T> take_all(uint64_t number) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] {
      const auto& place = places_[number];
      return place.size() == size_ &&
             std::ranges::all_of(place, [](const auto& value) { return value != nullptr; });
    });
    std::vector<T> all;
    for (const auto& value : places_[number]) {
      all.push_back(*value);
    }
    if (++taken_[number] == size_) {
      places_.erase(number);
      taken_.erase(number);
    }
    return all;
  }

 private:
  uint32_t size_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<uint64_t, std::vector<std::unique_ptr<T>>> places_;
  std::map<uint64_t, uint32_t> taken_;
};

class ThreadCollective final : public Collective {
 public:
  using Bytes = std::vector<std::byte>;
  using Point = MeetingPoint<Bytes>;

  ThreadCollective(Point& point, uint32_t rank, uint32_t size)
      : point_(point), rank_(rank), size_(size) {}

  uint32_t rank() const override { return rank_; }
  uint32_t world_size() const override { return size_; }

  std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                          std::string_view) override {
    const uint64_t number = ++num_calls_;
    point_.put(number, rank_, Bytes(mine.begin(), mine.end()));
    return std::make_unique<UnderWay>(point_, number);
  }

 private:
  class UnderWay final : public Gathering {
   public:
    UnderWay(Point& point, uint64_t number) : point_(point), number_(number) {}
    std::span<const std::byte> wait() override {
      if (all_.empty()) {
        for (const Bytes& bytes : point_.take_all(number_)) {
          all_.insert(all_.end(), bytes.begin(), bytes.end());
        }
      }
      return all_;
    }

   private:
    Point& point_;
    uint64_t number_;
    Bytes all_;
  };

  Point& point_;
  uint32_t rank_;
  uint32_t size_;
  uint64_t num_calls_ = 0;
};

class ThreadGroup final : public Group {
 public:
  using Point = MeetingPoint<at::Tensor>;

  ThreadGroup(Point& point, uint32_t rank, uint32_t size)
      : point_(point), rank_(rank), size_(size) {}

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return size_; }

  std::unique_ptr<Work> all_reduce(at::Tensor& whole, std::string_view what) override {
    return begin(what, whole, [whole](const std::vector<at::Tensor>& all) {
      at::Tensor sum = all[0].clone();
      for (size_t r = 1; r < all.size(); ++r) {
        sum.add_(all[r]);
      }
      whole.variable_data().copy_(sum);
    });
  }

  std::unique_ptr<Work> all_gather(at::Tensor& whole,
                                   const at::Tensor& part,
                                   std::string_view what) override {
    return begin(what, part, [whole](const std::vector<at::Tensor>& all) {
      whole.variable_data().copy_(at::cat(all));
    });
  }

  std::unique_ptr<Work> reduce_scatter(at::Tensor& part,
                                       const at::Tensor& whole,
                                       std::string_view what) override {
    return begin(what, whole, [part, rank = rank_](const std::vector<at::Tensor>& all) {
      at::Tensor sum;
      for (const at::Tensor& one : all) {
        const at::Tensor mine =
            one.narrow(0, static_cast<int64_t>(rank) * part.numel(), part.numel())
                .to(part.scalar_type());
        sum = sum.defined() ? sum.add(mine) : mine;
      }
      part.variable_data().copy_(sum);
    });
  }

  std::unique_ptr<Work> broadcast(at::Tensor& whole,
                                  uint32_t root,
                                  std::string_view what) override {
    return begin(what, whole, [whole, root](const std::vector<at::Tensor>& all) {
      whole.variable_data().copy_(all[root]);
    });
  }

  std::unique_ptr<Work> all_to_all(at::Tensor& receive,
                                   std::span<const int64_t>,
                                   const at::Tensor& send,
                                   std::span<const int64_t> send_counts,
                                   std::string_view what) override {
    // The counts travel in front of the elements.
    const at::Tensor counts =
        at::tensor(at::ArrayRef<int64_t>(send_counts.data(), send_counts.size()), at::kLong);
    const at::Tensor mine =
        at::cat({counts.view(at::kByte), send.detach().contiguous().view({-1}).view(at::kByte)});
    return begin(what, mine, [receive, rank = rank_](const std::vector<at::Tensor>& all) {
      const auto n = static_cast<int64_t>(all.size());
      const auto element = static_cast<int64_t>(receive.element_size());
      std::vector<at::Tensor> pieces;
      for (const at::Tensor& one : all) {
        const at::Tensor head = one.narrow(0, 0, n * 8).clone().view(at::kLong);
        const int64_t before = head.narrow(0, 0, rank).sum().item<int64_t>();
        pieces.push_back(
            one.narrow(0, n * 8 + before * element, head[rank].item<int64_t>() * element));
      }
      receive.variable_data().view({-1}).view(at::kByte).copy_(at::cat(pieces));
    });
  }

  // What has been moved so far, in order.
  const std::vector<std::string>& calls() const { return calls_; }

 private:
  class UnderWay final : public Work {
   public:
    UnderWay(Point& point, uint64_t number, std::function<void(const std::vector<at::Tensor>&)> end)
        : point_(point), number_(number), end_(std::move(end)) {}
    bool is_done() override { return false; }
    void wait() override { end_(point_.take_all(number_)); }

   private:
    Point& point_;
    uint64_t number_;
    std::function<void(const std::vector<at::Tensor>&)> end_;
  };

  std::unique_ptr<Work> begin(std::string_view what,
                              const at::Tensor& mine,
                              std::function<void(const std::vector<at::Tensor>&)> end) {
    calls_.emplace_back(what);
    const uint64_t number = calls_.size();
    point_.put(number, rank_, mine.detach().clone());
    return std::make_unique<UnderWay>(point_, number, std::move(end));
  }

  Point& point_;
  uint32_t rank_;
  uint32_t size_;
  std::vector<std::string> calls_;
};

// Calls `body` on `size` threads, each a rank.
inline void run_ranks(
    uint32_t size, const std::function<void(ThreadCollective& control, ThreadGroup& group)>& body) {
  ThreadCollective::Point control_point(size);
  ThreadGroup::Point group_point(size);
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCollective control(control_point, rank, size);
      ThreadGroup group(group_point, rank, size);
      body(control, group);
    });
  }
}

}  // namespace tenon
