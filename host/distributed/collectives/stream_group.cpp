// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/stream_group.hpp"

#include "host/error/status.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>

#include <functional>
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

class StreamGroup final : public Group {
 public:
  StreamGroup(CollectiveLog& log,
              c10d::Backend& backend,
              std::unique_ptr<CollectiveCheck> check,
              std::string name)
      : log_(log), backend_(backend), check_(std::move(check)), name_(std::move(name)) {}

  uint32_t rank() const override { return static_cast<uint32_t>(backend_.getRank()); }
  uint32_t size() const override { return static_cast<uint32_t>(backend_.getSize()); }

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

 private:
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
  const std::string name_;
  uint64_t num_begun_ = 0;
};

}  // namespace

std::unique_ptr<Group> make_stream_group(CollectiveLog& log,
                                         c10d::Backend& backend,
                                         std::unique_ptr<CollectiveCheck> check,
                                         std::string name) {
  return std::make_unique<StreamGroup>(log, backend, std::move(check), std::move(name));
}

}  // namespace tenon
