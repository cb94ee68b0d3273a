// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/stream_group.hpp"

#include "host/error/status.hpp"
#include "host/text/formatted.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using EntryPtr = CollectiveLog::EntryPtr;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class StreamWork final : public Work {
 public:
  // `work` is null if there was nothing to start.
  StreamWork(CollectiveLog& log, EntryPtr entry, WorkPtr work, std::function<void()> finish)
      : log_(log), entry_(std::move(entry)), work_(std::move(work)), finish_(std::move(finish)) {}

  bool is_done() override {
    return log_.is_ended(*entry_) || (work_ != nullptr && work_->isCompleted());
  }

  void wait() override {
    try {
      if (work_ != nullptr) {
        work_->wait();
        if (finish_) {
          finish_();
        }
      }
      log_.end(*entry_);
    } catch (const std::exception& error) {
      log_.fail(*entry_, what_without_backtrace(error.what()));
    }
    log_.wait(*entry_);
  }

 private:
  CollectiveLog& log_;
  EntryPtr entry_;
  WorkPtr work_;
  std::function<void()> finish_;  // on the compute stream
};

// A gather of bytes from the memory of the host, through the device.
class StreamGathering final : public Gathering {
 public:
  StreamGathering(std::unique_ptr<Work> work, at::Tensor mine, at::Tensor whole)
      : work_(std::move(work)), mine_(std::move(mine)), whole_(std::move(whole)) {}

  std::span<const std::byte> wait() override {
    if (work_ != nullptr) {
      std::exchange(work_, nullptr)->wait();
      whole_ = whole_.cpu();
    }
    return {static_cast<const std::byte*>(whole_.const_data_ptr()), whole_.nbytes()};
  }

 private:
  std::unique_ptr<Work> work_;
  at::Tensor mine_;
  at::Tensor whole_;
};

class StreamGroup final : public Group {
 public:
  using Group::all_reduce;

  StreamGroup(CollectiveLog& log,
              c10d::Backend& backend,
              std::unique_ptr<CollectiveCheck> check,
              std::vector<uint32_t> ranks,
              std::string name,
              at::Device device)
      : log_(log),
        backend_(backend),
        check_(std::move(check)),
        ranks_(std::move(ranks)),
        name_(std::move(name)),
        device_(device) {}

  uint32_t rank() const override { return static_cast<uint32_t>(backend_.getRank()); }
  uint32_t size() const override { return static_cast<uint32_t>(backend_.getSize()); }

  std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                          std::string_view what) override {
    const auto length = static_cast<int64_t>(mine.size());
    const at::Tensor on_host = at::empty({length}, at::kByte);
    if (!mine.empty()) {
      std::memcpy(on_host.mutable_data_ptr(), mine.data(), mine.size());
    }
    const at::Tensor own = on_host.to(device_);
    at::Tensor whole = at::empty({size() * length}, own.options());
    auto work = all_gather(whole, own, what);
    return std::make_unique<StreamGathering>(std::move(work), own, whole);
  }

  std::unique_ptr<Work> all_reduce(at::Tensor& whole, std::string_view what) override {
    return begin(CollectiveKind::kAllReduce, what, whole, 2 * share(whole), [&] {
      std::vector<at::Tensor> tensors{whole};
      return backend_.allreduce(tensors);
    });
  }

  std::unique_ptr<Work> all_gather(at::Tensor& whole,
                                   const at::Tensor& part,
                                   std::string_view what) override {
    return begin(CollectiveKind::kAllGather, what, whole, share(whole), [&] {
      at::Tensor input = part;
      return backend_._allgather_base(whole, input);
    });
  }

  std::unique_ptr<Work> reduce_scatter(at::Tensor& part,
                                       const at::Tensor& whole,
                                       std::string_view what) override {
    at::Tensor input = whole;
    if (part.scalar_type() == whole.scalar_type()) {
      return begin(CollectiveKind::kReduceScatter, what, whole, share(whole), [&] {
        return backend_._reduce_scatter_base(part, input);
      });
    }
    // The engine adds in the dtype that it sends, so the sum is computed here.
    at::Tensor pieces = at::empty_like(whole);
    return begin(
        CollectiveKind::kReduceScatter,
        what,
        whole,
        share(whole),
        [&] {
          std::vector<int64_t> equal;
          return backend_.alltoall_base(pieces, input, equal, equal);
        },
        [part, pieces, n = size()]() mutable {
          const at::AutoDispatchBelowADInplaceOrView no_autograd;
          const at::Tensor by_rank = pieces.view({n, part.numel()});
          part.copy_(by_rank.select(0, 0));
          for (uint32_t rank = 1; rank < n; ++rank) {
            part.add_(by_rank.select(0, rank));
          }
        });
  }

  std::unique_ptr<Work> broadcast(at::Tensor& whole,
                                  uint32_t root,
                                  std::string_view what) override {
    // A chain: all ranks except the last one forward the tensor.
    const bool is_last = (rank() + size() - root) % size() == size() - 1;
    return begin(CollectiveKind::kBroadcast,
                 what,
                 whole,
                 is_last ? 0 : static_cast<int64_t>(whole.nbytes()),
                 [&] {
                   c10d::BroadcastOptions options;
                   options.rootRank = root;
                   std::vector<at::Tensor> tensors{whole};
                   return backend_.broadcast(tensors, options);
                 });
  }

  std::unique_ptr<Work> all_to_all(at::Tensor& receive,
                                   std::span<const int64_t> receive_counts,
                                   const at::Tensor& send,
                                   std::span<const int64_t> send_counts,
                                   std::string_view what) override {
    const int64_t kept = send_counts[rank()] * static_cast<int64_t>(send.element_size());
    return begin(
        CollectiveKind::kAllToAll, what, receive, static_cast<int64_t>(send.nbytes()) - kept, [&] {
          at::Tensor input = send;
          std::vector<int64_t> to(receive_counts.begin(), receive_counts.end());
          std::vector<int64_t> from(send_counts.begin(), send_counts.end());
          return backend_.alltoall_base(receive, input, to, from);
        });
  }

  std::unique_ptr<Work> send(const at::Tensor& whole, uint32_t to, std::string_view what) override {
    return begin_pair(CollectiveKind::kSend, whole, rank(), to, what);
  }

  std::unique_ptr<Work> receive(at::Tensor& whole, uint32_t from, std::string_view what) override {
    return begin_pair(CollectiveKind::kReceive, whole, from, rank(), what);
  }

 private:
  std::unique_ptr<Work> begin_pair(CollectiveKind kind,
                                   const at::Tensor& whole,
                                   uint32_t from,
                                   uint32_t to,
                                   std::string_view what) {
    const auto bytes = static_cast<int64_t>(whole.nbytes());
    const bool sends = kind == CollectiveKind::kSend;
    const uint32_t peer = sends ? to : from;
    const EntryPtr entry =
        log_.begin({.kind = kind,
                    .group = formatted("{} {} to {}", name_, ranks_[from], ranks_[to]),
                    .what = what,
                    .number = ++num_of_pair_[{from, to}],
                    .bytes = bytes,
                    .bytes_sent = sends ? bytes : 0,
                    .peer = ranks_[peer]});
    WorkPtr work;
    try {
      if (whole.numel() > 0) {
        std::vector<at::Tensor> one{whole};
        work = sends ? backend_.send(one, static_cast<int>(peer), 0)
                     : backend_.recv(one, static_cast<int>(peer), 0);
      }
    } catch (const std::exception& error) {
      log_.fail(*entry, what_without_backtrace(error.what()));
    }
    return std::make_unique<StreamWork>(log_, entry, std::move(work), nullptr);
  }

  // Returns the bytes that each rank sends if each part reaches every other rank once.
  int64_t share(const at::Tensor& whole) const {
    return static_cast<int64_t>(whole.nbytes()) * (size() - 1) / size();
  }

  template <class Begin>
  std::unique_ptr<Work> begin(CollectiveKind kind,
                              std::string_view what,
                              const at::Tensor& whole,
                              int64_t bytes_sent,
                              Begin&& begin,
                              std::function<void()> finish = {}) {
    const EntryPtr entry = log_.begin({.kind = kind,
                                       .group = name_,
                                       .what = what,
                                       .number = ++num_begun_,
                                       .bytes = static_cast<int64_t>(whole.nbytes()),
                                       .bytes_sent = bytes_sent});
    compare_before(log_, *entry, check_.get(), whole);
    WorkPtr work;
    try {
      // In an all-to-all, other ranks may have data to send even if this rank receives nothing.
      if (whole.numel() > 0 || kind == CollectiveKind::kAllToAll) {
        work = begin();
      }
    } catch (const std::exception& error) {
      log_.fail(*entry, what_without_backtrace(error.what()));
    }
    return std::make_unique<StreamWork>(log_, entry, std::move(work), std::move(finish));
  }

  CollectiveLog& log_;
  c10d::Backend& backend_;
  const std::unique_ptr<CollectiveCheck> check_;
  const std::vector<uint32_t> ranks_;  // in the world
  const std::string name_;
  const at::Device device_;
  uint64_t num_begun_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> num_of_pair_;  // by sender and receiver
};

}  // namespace

std::unique_ptr<Group> make_stream_group(CollectiveLog& log,
                                         c10d::Backend& backend,
                                         std::unique_ptr<CollectiveCheck> check,
                                         std::span<const uint32_t> ranks,
                                         std::string name,
                                         at::Device device) {
  return std::make_unique<StreamGroup>(log,
                                       backend,
                                       std::move(check),
                                       std::vector<uint32_t>(ranks.begin(), ranks.end()),
                                       std::move(name),
                                       device);
}

}  // namespace tenon
