// SPDX-License-Identifier: Apache-2.0
#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/model/activation_store.hpp"
#include "host/text/byte_size.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <pthread.h>
#include <stop_token>
#include <thread>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

constexpr size_t kCallBytes = 8U << 20;  // of a system call
constexpr size_t kMostUnwritten = 2;     // groups

[[noreturn]] void fail_offload(const std::string& what, const std::string& folder, int error) {
  throw Error("model.offload_failed",
              "train.offload_activations: cannot " + what + " a scratch file in " + folder + ": " +
                  std::strerror(error) +
                  "; free disk space there, or set train.offload_folder to another folder");
}

// Opens a file without a name, or removes its name at once.
OpenFile open_unnamed(const std::string& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (fd < 0) {  // a file system without such files
    std::string path = folder + "/.activations-XXXXXX";
    fd = ::mkostemp(path.data(), O_CLOEXEC);
    if (fd >= 0) {
      ::unlink(path.c_str());
    }
  }
  if (fd < 0) {
    fail_offload("create", folder, errno);
  }
  return OpenFile(fd);
}

class DiskActivations final : public ActivationStore {
 public:
  explicit DiskActivations(const std::string& folder)
      : folder_(folder),
        file_(open_unnamed(folder)),
        thread_([this](const std::stop_token& stop) { run(stop); }) {
    // For debuggers and profilers; a failure to set the name is harmless.
    pthread_setname_np(thread_.native_handle(), "tenon-offload");
  }

  ~DiskActivations() override { thread_.request_stop(); }

  void push(uint64_t microbatch, std::vector<at::Tensor> group) override {
    auto added = std::make_shared<Group>();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return failure_ || num_unwritten_ < kMostUnwritten; });
    rethrow();
    for (at::Tensor& tensor : group) {
      Entry entry;
      entry.device = tensor.device();
      entry.tensor = tensor.to(at::kCPU);
      if (!entry.tensor.is_non_overlapping_and_dense()) {
        entry.tensor = entry.tensor.contiguous();
      }
      tensor.reset();
      added->bytes += static_cast<int64_t>(entry.tensor.nbytes());
      added->entries.push_back(std::move(entry));
    }
    assign_offsets(*added);
    ++num_unwritten_;
    stacks_[microbatch].push_back(added);
    jobs_.push_back(std::move(added));
    changed_.notify_all();
  }

  std::vector<at::Tensor> pop(uint64_t microbatch) override {
    std::unique_lock lock(mutex_);
    rethrow();
    Stack& stack = stacks_.at(microbatch);
    const std::shared_ptr<Group> group = std::move(stack.back());
    stack.pop_back();
    bring_back(group);
    changed_.wait(lock, [&] { return failure_ || group->state != State::kAway; });
    rethrow();
    group->is_wanted = true;
    std::vector<at::Tensor> tensors;
    for (const Entry& entry : group->entries) {
      tensors.push_back(entry.tensor.to(entry.device));
    }
    if (!stack.empty()) {
      bring_back(stack.back());
    }
    return tensors;
  }

  void drop(uint64_t microbatch) override {
    std::unique_lock lock(mutex_);
    const auto found = stacks_.find(microbatch);
    if (found == stacks_.end()) {
      return;
    }
    const auto is_dropped = [&found](const std::shared_ptr<Group>& group) {
      return std::ranges::find(found->second, group) != found->second.end();
    };
    std::erase_if(jobs_, [&](const std::shared_ptr<Group>& group) {
      if (!is_dropped(group)) {
        return false;
      }
      num_unwritten_ -= group->state == State::kHere ? 1 : 0;
      return true;
    });
    changed_.wait(lock, [&] { return current_ == nullptr || !is_dropped(current_); });
    stacks_.erase(found);
  }

 private:
  // kHere: in memory, and perhaps on its way to the disk; kAway: on the disk only.
  enum class State { kHere, kAway };

  struct Entry {
    at::Tensor tensor;
    int64_t offset = 0;  // in the file
    at::Device device = at::kCPU;
    std::vector<int64_t> sizes;  // while the tensor is away
    std::vector<int64_t> strides;
    at::ScalarType dtype = at::kFloat;
  };

  struct Group {
    std::vector<Entry> entries;
    int64_t bytes = 0;
    int64_t begin = 0;  // in the file
    State state = State::kHere;
    bool is_wanted = false;  // taken back, or to be read: its memory stays
  };
  using Stack = std::vector<std::shared_ptr<Group>>;

  // Gives the group the first room in the file that no other group has. Jobs run in order, so the
  // room of a group that was taken back is free even if it is still being written.
  void assign_offsets(Group& group) const {
    std::vector<const Group*> others;
    for (const auto& [microbatch, stack] : stacks_) {
      for (const std::shared_ptr<Group>& other : stack) {
        others.push_back(other.get());
      }
    }
    std::ranges::sort(others, {}, &Group::begin);
    for (const Group* const other : others) {
      if (group.begin + group.bytes <= other->begin) {
        break;
      }
      group.begin = std::max(group.begin, other->begin + other->bytes);
    }
    int64_t begin = group.begin;
    for (Entry& entry : group.entries) {
      entry.offset = begin;
      begin += static_cast<int64_t>(entry.tensor.nbytes());
    }
  }

  void rethrow() const {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

  // Keeps the group in memory, or has it read. The mutex is locked.
  void bring_back(const std::shared_ptr<Group>& group) {
    if (!std::exchange(group->is_wanted, true) && group->state == State::kAway) {
      jobs_.push_back(group);
      changed_.notify_all();
    }
  }

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !jobs_.empty(); })) {
      if (stop.stop_requested()) {
        return;
      }
      current_ = std::move(jobs_.front());
      jobs_.pop_front();
      try {
        do_job(*current_, lock);
      } catch (...) {
        if (!lock.owns_lock()) {
          lock.lock();
        }
        failure_ = std::current_exception();
      }
      current_.reset();
      changed_.notify_all();
    }
  }

  // Releases the lock while it writes or reads.
  void do_job(Group& group, std::unique_lock<std::mutex>& lock) {
    if (group.state == State::kAway) {
      lock.unlock();
      read(group);
      lock.lock();
      group.state = State::kHere;
      return;
    }
    if (!group.is_wanted) {
      std::vector<Entry> entries = group.entries;
      lock.unlock();
      for (const Entry& entry : entries) {
        write(entry);
      }
      entries.clear();
      lock.lock();
    }
    --num_unwritten_;
    if (group.is_wanted) {  // taken back meanwhile
      return;
    }
    group.state = State::kAway;
    for (Entry& entry : group.entries) {
      entry.sizes = entry.tensor.sizes().vec();
      entry.strides = entry.tensor.strides().vec();
      entry.dtype = entry.tensor.scalar_type();
      entry.tensor.reset();
    }
  }

  void write(const Entry& entry) const {
    const auto* data = static_cast<const std::byte*>(entry.tensor.const_data_ptr());
    size_t left = entry.tensor.nbytes();
    int64_t offset = entry.offset;
    while (left > 0) {
      const ssize_t done = ::pwrite(file_.get(), data, std::min(left, kCallBytes), offset);
      if (done == 0 || (done < 0 && errno != EINTR)) {
        fail_offload(
            "write " + byte_size(left) + " of activations to", folder_, done == 0 ? ENOSPC : errno);
      }
      const ssize_t moved = std::max<ssize_t>(done, 0);
      data += moved;
      offset += moved;
      left -= static_cast<size_t>(moved);
    }
  }

  void read(Group& group) const {
    for (Entry& entry : group.entries) {
      at::Tensor tensor = at::empty_strided(entry.sizes, entry.strides, entry.dtype);
      auto* data = static_cast<std::byte*>(tensor.mutable_data_ptr());
      size_t left = tensor.nbytes();
      int64_t offset = entry.offset;
      while (left > 0) {
        const ssize_t done = ::pread(file_.get(), data, std::min(left, kCallBytes), offset);
        if (done == 0 || (done < 0 && errno != EINTR)) {
          fail_offload("read back", folder_, done == 0 ? EIO : errno);
        }
        const ssize_t moved = std::max<ssize_t>(done, 0);
        data += moved;
        offset += moved;
        left -= static_cast<size_t>(moved);
      }
      entry.tensor = std::move(tensor);
    }
  }

  const std::string folder_;
  const OpenFile file_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<uint64_t, Stack> stacks_;         // by microbatch
  std::deque<std::shared_ptr<Group>> jobs_;  // to write or read, in order
  std::shared_ptr<Group> current_;           // the job that runs; null: none
  size_t num_unwritten_ = 0;
  std::exception_ptr failure_;
  std::jthread thread_;  // last: joined before other members are destroyed
};

}  // namespace

std::unique_ptr<ActivationStore> disk_activations(const std::string& folder) {
  return std::make_unique<DiskActivations>(folder);
}

}  // namespace tenon
