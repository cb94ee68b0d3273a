// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/peer_group.hpp"

#include "host/distributed/collectives/rank_sum.hpp"
#include "host/distributed/collectives/task_thread.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/text/formatted.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using EntryPtr = CollectiveLog::EntryPtr;

// Up to this size, saving one of two waits outweighs adding twice as many elements.
constexpr int64_t kWholeBytes = int64_t{16} << 20;

class PeerWork final : public Work {
 public:
  PeerWork(CollectiveLog& log, EntryPtr entry) : log_(log), entry_(std::move(entry)) {}
  bool is_done() override { return log_.is_ended(*entry_); }
  void wait() override { log_.wait(*entry_); }

 private:
  CollectiveLog& log_;
  EntryPtr entry_;
};

// A gather of bytes. The caller's thread moves the data, which takes less time than another thread
// for values as small as these.
class PeerGathering final : public Gathering {
 public:
  PeerGathering(CollectiveLog& log, EntryPtr entry, StartedExchange started, at::Tensor whole)
      : log_(log),
        entry_(std::move(entry)),
        started_(std::move(started)),
        whole_(std::move(whole)) {}

  std::span<const std::byte> wait() override {
    try {
      started_.wait(log_.deadline(*entry_));
      log_.end(*entry_);
    } catch (const std::exception& error) {
      log_.fail(*entry_, what_without_backtrace(error.what()));
    }
    log_.wait(*entry_);
    return {static_cast<const std::byte*>(whole_.const_data_ptr()), whole_.nbytes()};
  }

 private:
  CollectiveLog& log_;
  EntryPtr entry_;
  StartedExchange started_;
  at::Tensor whole_;
};

// Tags of exchanges. Each kind has its own, so that they never meet: the first and the second
// exchange of a collective, and tensors sent from one rank to another.
uint64_t first_tag(uint64_t number) {
  return 4 * number;
}
uint64_t second_tag(uint64_t number) {
  return 4 * number + 1;
}
uint64_t pair_tag(uint64_t number) {
  return 4 * number + 2;
}

// Equal parts of a tensor, by rank; the last parts may be shorter.
class Parts {
 public:
  Parts(const at::Tensor& whole, uint32_t n)
      : whole_(whole.view({whole.numel()})), length_((whole.numel() + n - 1) / n) {}

  at::Tensor of(uint32_t rank) const {
    const int64_t begin = std::min<int64_t>(rank * length_, whole_.numel());
    return whole_.narrow(0, begin, std::min(length_, whole_.numel() - begin));
  }

 private:
  at::Tensor whole_;
  int64_t length_;
};

class PeerGroup final : public Group {
 public:
  using Group::all_reduce;

  PeerGroup(CollectiveLog& log,
            std::unique_ptr<PeerExchange> exchange,
            std::unique_ptr<CollectiveCheck> check,
            std::string name)
      : log_(log),
        exchange_(std::move(exchange)),
        check_(std::move(check)),
        name_(std::move(name)) {}

  ~PeerGroup() override {
    // Ends the current tasks of the threads below, since nobody waits for them any more.
    bool is_idle = first_.is_idle() && second_.is_idle();
    for (auto& [peer, lane] : lanes_) {
      is_idle = is_idle && lane.thread.is_idle();
    }
    if (!is_idle) {
      exchange_->backend().abort();
    }
  }
  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;

  uint32_t rank() const override { return exchange_->rank(); }
  uint32_t size() const override { return exchange_->size(); }

  std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                          std::string_view what) override {
    const auto length = static_cast<int64_t>(mine.size());
    const at::Tensor whole = at::empty({size() * length}, at::kByte);
    const at::Tensor own = whole.narrow(0, rank() * length, length);
    const uint64_t number = ++num_begun_;
    const EntryPtr entry = log_.begin({.kind = CollectiveKind::kControl,
                                       .group = name_,
                                       .what = what,
                                       .number = number,
                                       .bytes = whole.numel(),
                                       .bytes_sent = whole.numel() - length});
    compare_before(log_, *entry, check_.get(), whole);
    StartedExchange started;
    run(entry, [&] {
      if (!mine.empty()) {
        std::memcpy(own.mutable_data_ptr(), mine.data(), mine.size());
      }
      std::vector<PeerTensor> receive;
      std::vector<PeerTensor> send;
      for (const uint32_t peer : others()) {
        receive.push_back({peer, whole.narrow(0, peer * length, length)});
        send.push_back({peer, own});
      }
      started = exchange_->start(first_tag(number), receive, send);
    });
    return std::make_unique<PeerGathering>(log_, entry, std::move(started), whole);
  }

  std::unique_ptr<Work> all_reduce(at::Tensor& whole, std::string_view what) override {
    return size() == 2 && static_cast<int64_t>(whole.nbytes()) <= kWholeBytes
               ? all_reduce_of_two(whole, what)
               : all_reduce_by_parts(whole, what);
  }

  std::unique_ptr<Work> all_gather(at::Tensor& whole,
                                   const at::Tensor& part,
                                   std::string_view what) override {
    const Parts parts(whole, size());
    std::vector<PeerTensor> receive;
    std::vector<PeerTensor> send;
    for (const uint32_t peer : others()) {
      receive.push_back({peer, parts.of(peer)});
      send.push_back({peer, part});
    }
    return begin(CollectiveKind::kAllGather,
                 what,
                 whole,
                 receive,
                 send,
                 [part, own = parts.of(rank())](const EntryPtr&) {
                   if (own.const_data_ptr() != part.const_data_ptr()) {
                     std::memcpy(own.mutable_data_ptr(), part.const_data_ptr(), part.nbytes());
                   }
                 });
  }

  std::unique_ptr<Work> reduce_scatter(at::Tensor& part,
                                       const at::Tensor& whole,
                                       std::string_view what) override {
    const Parts parts(whole, size());
    const std::vector<at::Tensor> pieces = pieces_beside(parts.of(rank()));
    std::vector<PeerTensor> receive;
    std::vector<PeerTensor> send;
    for (const uint32_t peer : others()) {
      receive.push_back({peer, pieces[peer]});
      send.push_back({peer, parts.of(peer)});
    }
    return begin(CollectiveKind::kReduceScatter,
                 what,
                 whole,
                 receive,
                 send,
                 [part, pieces](const EntryPtr&) { sum_of_ranks(part, pieces); });
  }

  // Binomial tree: a rank that has the tensor sends it 2^i ranks further, for decreasing i.
  std::unique_ptr<Work> broadcast(at::Tensor& whole,
                                  uint32_t root,
                                  std::string_view what) override {
    const uint32_t distance = (rank() + size() - root) % size();
    const auto rank_at = [this, root](uint32_t at) { return (at + root) % size(); };
    std::vector<PeerTensor> receive;
    std::vector<PeerTensor> send;
    const uint32_t step_from_parent =
        distance == 0 ? std::bit_ceil(size()) : distance & (0U - distance);
    if (distance != 0) {
      receive.push_back({rank_at(distance - step_from_parent), whole});
    }
    for (uint32_t step = step_from_parent / 2; step > 0; step /= 2) {
      if (distance + step < size()) {
        send.push_back({rank_at(distance + step), whole});
      }
    }
    if (distance == 0) {
      return begin(CollectiveKind::kBroadcast, what, whole, {}, send, {});
    }
    return begin(CollectiveKind::kBroadcast, what, whole, receive, {}, {}, Then{{}, send, false});
  }

  std::unique_ptr<Work> all_to_all(at::Tensor& received,
                                   std::span<const int64_t> receive_counts,
                                   const at::Tensor& sent,
                                   std::span<const int64_t> send_counts,
                                   std::string_view what) override {
    const std::vector<at::Tensor> parts = pieces_of(received, receive_counts);
    const std::vector<at::Tensor> pieces = pieces_of(sent, send_counts);
    std::vector<PeerTensor> receive;
    std::vector<PeerTensor> send;
    for (const uint32_t peer : others()) {
      receive.push_back({peer, parts[peer]});
      send.push_back({peer, pieces[peer]});
    }
    return begin(CollectiveKind::kAllToAll,
                 what,
                 received,
                 receive,
                 send,
                 [to = parts[rank()], from = pieces[rank()]](const EntryPtr&) {
                   if (from.nbytes() > 0 && to.const_data_ptr() != from.const_data_ptr()) {
                     std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
                   }
                 });
  }

  std::unique_ptr<Work> send(const at::Tensor& whole, uint32_t to, std::string_view what) override {
    return begin_pair(CollectiveKind::kSend, whole, rank(), to, what);
  }

  std::unique_ptr<Work> receive(at::Tensor& whole, uint32_t from, std::string_view what) override {
    return begin_pair(CollectiveKind::kReceive, whole, from, rank(), what);
  }

 private:
  // The tensors from one rank to another. Each lane has a thread, so that a tensor never waits for
  // one of another lane.
  struct Lane {
    uint64_t num_begun = 0;
    TaskThread thread;
  };

  // A second exchange, started after the first one and the function that follows it.
  struct Then {
    std::vector<PeerTensor> receive;
    std::vector<PeerTensor> send;
    bool is_second = true;  // false if peers receive these tensors in their first exchange
  };
  using Follow = std::function<void(const EntryPtr&)>;

  // Returns the other ranks of the group, starting with the next one, so that not all ranks contact
  // the same rank at once.
  std::vector<uint32_t> others() const {
    std::vector<uint32_t> ranks;
    for (uint32_t i = 1; i < size(); ++i) {
      ranks.push_back((rank() + i) % size());
    }
    return ranks;
  }

  // Splits `whole` into the pieces of the ranks.
  static std::vector<at::Tensor> pieces_of(const at::Tensor& whole,
                                           std::span<const int64_t> counts) {
    std::vector<at::Tensor> pieces;
    int64_t begin = 0;
    for (const int64_t count : counts) {
      pieces.push_back(whole.narrow(0, begin, count));
      begin += count;
    }
    return pieces;
  }

  // Returns one tensor for each rank: `own` for this rank, and buffers for the pieces of the
  // others.
  std::vector<at::Tensor> pieces_beside(const at::Tensor& own) const {
    const at::Tensor room = at::empty({size() - 1, own.numel()}, own.options());
    std::vector<at::Tensor> pieces(size());
    int64_t next = 0;
    for (uint32_t peer = 0; peer < size(); ++peer) {
      pieces[peer] = peer == rank() ? own : room.select(0, next++);
    }
    return pieces;
  }

  // Two ranks send as many bytes in one exchange of the whole tensor as in two exchanges of halves.
  // They wait only once, but both add all elements.
  std::unique_ptr<Work> all_reduce_of_two(at::Tensor& whole, std::string_view what) {
    const std::vector<at::Tensor> pieces = pieces_beside(whole.view({whole.numel()}));
    const uint32_t peer = 1 - rank();
    return begin(CollectiveKind::kAllReduce,
                 what,
                 whole,
                 {{peer, pieces[peer]}},
                 {{peer, whole}},
                 [pieces, own = pieces[rank()]](const EntryPtr&) { sum_of_ranks(own, pieces); });
  }

  // Each rank sums one part, and sends the sum to all ranks.
  std::unique_ptr<Work> all_reduce_by_parts(at::Tensor& whole, std::string_view what) {
    const Parts parts(whole, size());
    const at::Tensor own = parts.of(rank());
    const std::vector<at::Tensor> pieces = pieces_beside(own);
    std::vector<PeerTensor> receive;
    std::vector<PeerTensor> send;
    Then then;
    for (const uint32_t peer : others()) {
      receive.push_back({peer, pieces[peer]});
      send.push_back({peer, parts.of(peer)});
      then.receive.push_back({peer, parts.of(peer)});
      then.send.push_back({peer, own});
    }
    return begin(
        CollectiveKind::kAllReduce,
        what,
        whole,
        receive,
        send,
        [own, pieces](const EntryPtr&) { sum_of_ranks(own, pieces); },
        std::move(then));
  }

  std::unique_ptr<Work> begin(CollectiveKind kind,
                              std::string_view what,
                              const at::Tensor& whole,
                              const std::vector<PeerTensor>& receive,
                              const std::vector<PeerTensor>& send,
                              Follow follow,
                              std::optional<Then> then = {}) {
    const uint64_t number = ++num_begun_;
    int64_t bytes_sent = 0;
    for (const auto& list : {send, then ? then->send : std::vector<PeerTensor>()}) {
      for (const PeerTensor& one : list) {
        bytes_sent += static_cast<int64_t>(one.tensor.nbytes());
      }
    }
    const EntryPtr entry = log_.begin({.kind = kind,
                                       .group = name_,
                                       .what = what,
                                       .number = number,
                                       .bytes = static_cast<int64_t>(whole.nbytes()),
                                       .bytes_sent = bytes_sent});
    compare_before(log_, *entry, check_.get(), whole);
    // Here, where a refused thread is an error of this rank, and not of a collective.
    first_.start();
    if (then) {
      second_.start();
    }
    run(entry, [&] {
      // The two exchanges of a collective have separate tags.
      StartedExchange started = exchange_->start(first_tag(number), receive, send);
      first_.push([this, entry, number, started, follow = std::move(follow), then]() mutable {
        run(entry, [&] {
          started.wait(log_.deadline(*entry));
          if (follow) {
            follow(entry);
          }
          if (!then) {
            log_.end(*entry);
            return;
          }
          const uint64_t tag = then->is_second ? second_tag(number) : first_tag(number);
          StartedExchange next = exchange_->start(tag, then->receive, then->send);
          // On another thread, so that it does not delay the first exchanges of later collectives.
          second_.push([this, entry, next]() mutable {
            run(entry, [&] {
              next.wait(log_.deadline(*entry));
              log_.end(*entry);
            });
          });
        });
      });
    });
    return std::make_unique<PeerWork>(log_, entry);
  }

  // Starts the transfer of a tensor between this rank and another one.
  std::unique_ptr<Work> begin_pair(CollectiveKind kind,
                                   const at::Tensor& whole,
                                   uint32_t from,
                                   uint32_t to,
                                   std::string_view what) {
    const uint32_t peer = from == rank() ? to : from;
    Lane& lane = lanes_[{from, to}];
    const uint64_t number = ++lane.num_begun;
    const auto bytes = static_cast<int64_t>(whole.nbytes());
    const EntryPtr entry = log_.begin(
        {.kind = kind,
         .group = formatted(
             "{} {} to {}", name_, exchange_->rank_in_world(from), exchange_->rank_in_world(to)),
         .what = what,
         .number = number,
         .bytes = bytes,
         .bytes_sent = from == rank() ? bytes : 0,
         .peer = exchange_->rank_in_world(peer)});
    lane.thread.start();
    run(entry, [&] {
      const std::vector<PeerTensor> one{{peer, whole}};
      StartedExchange started = from == rank() ? exchange_->start(pair_tag(number), {}, one)
                                               : exchange_->start(pair_tag(number), one, {});
      lane.thread.push([this, entry, started]() mutable {
        run(entry, [&] {
          started.wait(log_.deadline(*entry));
          log_.end(*entry);
        });
      });
    });
    return std::make_unique<PeerWork>(log_, entry);
  }

  // Calls `body`. An exception fails the collective, and `wait` reports it.
  template <class Body>
  void run(const EntryPtr& entry, Body&& body) {
    try {
      body();
    } catch (const std::exception& error) {
      log_.fail(*entry, what_without_backtrace(error.what()));
    }
  }

  CollectiveLog& log_;
  const std::unique_ptr<PeerExchange> exchange_;
  const std::unique_ptr<CollectiveCheck> check_;
  const std::string name_;
  uint64_t num_begun_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, Lane> lanes_;  // by sender and receiver
  TaskThread second_;  // outlives first_, which pushes tasks to it
  TaskThread first_;
};

}  // namespace

std::unique_ptr<Group> make_peer_group(CollectiveLog& log,
                                       std::unique_ptr<PeerExchange> exchange,
                                       std::unique_ptr<CollectiveCheck> check,
                                       std::string name) {
  return std::make_unique<PeerGroup>(log, std::move(exchange), std::move(check), std::move(name));
}

}  // namespace tenon
