// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are threads of one process: collectives and groups over plain memory, for tests of
// what is done with them. Works are finished where they are waited for.
#pragma once

#include "host/distributed/collectives/rank_groups.hpp"
#include "host/distributed/collectives/world.hpp"
#include "host/distributed/ranks/rank_role.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
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
    auto& board = boards_[number];
    board.resize(size_);
    board[rank] = std::make_unique<T>(std::move(value));
    arrived_.notify_all();
  }

  std::vector<T> take_all(uint64_t number) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] {
      const auto& board = boards_[number];
      return board.size() == size_ &&
             std::ranges::all_of(board, [](const auto& value) { return value != nullptr; });
    });
    std::vector<T> all;
    for (const auto& value : boards_[number]) {
      all.push_back(*value);
    }
    if (++taken_[number] == size_) {
      boards_.erase(number);
      taken_.erase(number);
    }
    return all;
  }

 private:
  uint32_t size_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<uint64_t, std::vector<std::unique_ptr<T>>> boards_;
  std::map<uint64_t, uint32_t> taken_;
};

class ThreadGroup final : public Group {
 public:
  using Bytes = std::vector<std::byte>;
  // Where the ranks of a group meet. A tensor that one rank sends to another is put down under the
  // numbers of both.
  struct Point {
    explicit Point(uint32_t size) : tensors(size), bytes(size) {}
    MeetingPoint<at::Tensor> tensors;
    MeetingPoint<Bytes> bytes;
    std::mutex mutex;
    std::map<std::pair<uint32_t, uint32_t>, MeetingPoint<at::Tensor>> pairs;

    MeetingPoint<at::Tensor>& pair(uint32_t from, uint32_t to) {
      const std::lock_guard lock(mutex);
      return pairs.try_emplace({from, to}, 1).first->second;
    }
  };

  ThreadGroup(Point& point, uint32_t rank, uint32_t size)
      : point_(point), rank_(rank), size_(size) {}

  using Group::all_reduce;

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return size_; }

  std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                          std::string_view) override {
    const uint64_t number = ++num_gathers_;
    point_.bytes.put(number, rank_, Bytes(mine.begin(), mine.end()));
    return std::make_unique<Gathered>(point_.bytes, number);
  }

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

  std::unique_ptr<Work> send(const at::Tensor& whole, uint32_t to, std::string_view what) override {
    calls_.emplace_back(what);
    point_.pair(rank_, to).put(++num_of_pair_[{rank_, to}], 0, whole.detach().clone());
    return std::make_unique<UnderWay>(nullptr, 0, nullptr);
  }

  std::unique_ptr<Work> receive(at::Tensor& whole, uint32_t from, std::string_view what) override {
    calls_.emplace_back(what);
    return std::make_unique<UnderWay>(
        &point_.pair(from, rank_),
        ++num_of_pair_[{from, rank_}],
        [whole](const std::vector<at::Tensor>& one) { whole.variable_data().copy_(one.front()); });
  }

  // What has been moved so far, in order.
  const std::vector<std::string>& calls() const { return calls_; }

 private:
  class Gathered final : public Gathering {
   public:
    Gathered(MeetingPoint<Bytes>& point, uint64_t number) : point_(point), number_(number) {}
    std::span<const std::byte> wait() override {
      if (all_.empty()) {
        for (const Bytes& bytes : point_.take_all(number_)) {
          all_.insert(all_.end(), bytes.begin(), bytes.end());
        }
      }
      return all_;
    }

   private:
    MeetingPoint<Bytes>& point_;
    uint64_t number_;
    Bytes all_;
  };

  class UnderWay final : public Work {
   public:
    // `point` is null if there is nothing to wait for.
    UnderWay(MeetingPoint<at::Tensor>* point,
             uint64_t number,
             std::function<void(const std::vector<at::Tensor>&)> end)
        : point_(point), number_(number), end_(std::move(end)) {}
    bool is_done() override { return false; }
    void wait() override {
      if (point_ != nullptr) {
        end_(point_->take_all(number_));
      }
    }

   private:
    MeetingPoint<at::Tensor>* point_;
    uint64_t number_;
    std::function<void(const std::vector<at::Tensor>&)> end_;
  };

  std::unique_ptr<Work> begin(std::string_view what,
                              const at::Tensor& mine,
                              std::function<void(const std::vector<at::Tensor>&)> end) {
    calls_.emplace_back(what);
    const uint64_t number = ++num_begun_;
    point_.tensors.put(number, rank_, mine.detach().clone());
    return std::make_unique<UnderWay>(&point_.tensors, number, std::move(end));
  }

  Point& point_;
  uint32_t rank_;
  uint32_t size_;
  uint64_t num_gathers_ = 0;
  uint64_t num_begun_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> num_of_pair_;
  std::vector<std::string> calls_;
};

// The points of all groups of a world, by name and members.
class ThreadPoints {
 public:
  ThreadGroup::Point& of(std::string_view name, std::span<const uint32_t> ranks) {
    const std::lock_guard lock(mutex_);
    auto& made = points_[{std::string(name), std::vector<uint32_t>(ranks.begin(), ranks.end())}];
    if (made == nullptr) {
      made = std::make_unique<ThreadGroup::Point>(static_cast<uint32_t>(ranks.size()));
    }
    return *made;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::vector<uint32_t>>, std::unique_ptr<ThreadGroup::Point>>
      points_;
};

// A world whose ranks are threads. It has no store, and cannot fail.
class ThreadWorld final : public World {
 public:
  ThreadWorld(ThreadPoints& points, uint32_t rank, uint32_t size)
      : points_(points), rank_(rank), size_(size), control_(make_control()) {}

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return size_; }
  Group& control() override { return *control_; }
  uint32_t restart() const override { return 0; }
  std::unique_ptr<Group> make_group(std::span<const uint32_t> ranks,
                                    std::string_view name,
                                    c10::Device) override {
    const auto board = std::ranges::find(ranks, rank_) - ranks.begin();
    return std::make_unique<ThreadGroup>(
        points_.of(name, ranks), static_cast<uint32_t>(board), static_cast<uint32_t>(ranks.size()));
  }
  std::unique_ptr<Store> open_store() override { return nullptr; }
  std::unique_ptr<Store> open_earlier_store(uint32_t) override { return nullptr; }
  void reconnect() override { control_ = make_control(); }
  void end_start() override {}
  void abort(const std::string&) override {}
  Traffic traffic() const override { return {}; }
  std::vector<CollectiveRecord> last_collectives() const override { return {}; }
  void leave() override {}

 private:
  std::unique_ptr<Group> make_control() {
    std::vector<uint32_t> all(size_);
    std::iota(all.begin(), all.end(), 0U);
    return make_group(all, "control", c10::kCPU);
  }

  ThreadPoints& points_;
  uint32_t rank_;
  uint32_t size_;
  std::unique_ptr<Group> control_;
};

// Calls `body` on a thread for each rank of a mesh, with all groups connected, also those of
// these parameters.
inline void run_ranks(const MeshDegrees& degrees,
                      uint32_t size,
                      const RankGroups::Parameters& parameters,
                      const std::function<void(RankGroups& ranks)>& body) {
  ThreadPoints points;
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadWorld world(points, rank, size);
      RankGroups ranks(world, RankRole(Mesh(degrees, size, rank)));
      ranks.connect(c10::kCPU, true, parameters);
      body(ranks);
    });
  }
}

inline void run_ranks(const MeshDegrees& degrees,
                      uint32_t size,
                      const std::function<void(RankGroups& ranks)>& body) {
  run_ranks(degrees, size, {}, body);
}

inline void run_ranks(uint32_t size, const std::function<void(RankGroups& ranks)>& body) {
  run_ranks({}, size, body);
}

}  // namespace tenon
