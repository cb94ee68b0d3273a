// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/memory_backend.hpp"

#include "host/distributed/collectives/shared_ring.hpp"
#include "host/distributed/ranks/awake_clock.hpp"
#include "host/text/formatted.hpp"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <deque>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using std::chrono::milliseconds;

// How long a waiting rank sleeps before it checks whether the other processes still exist.
constexpr milliseconds kLook{50};

// Bytes of a long tensor to move before notifying the other side.
constexpr uint64_t kStretch = uint64_t{512} << 10;

constexpr char kGivenUp[] = "the groups were canceled";

uint64_t ring_bytes(MemoryRoom room, uint32_t size) {
  const bool is_for_tensors = room == MemoryRoom::kForTensors;
  const uint64_t all = uint64_t{is_for_tensors ? 16U : 1U} << 20;
  const uint64_t most = uint64_t{is_for_tensors ? 4096U : 64U} << 10;
  constexpr uint64_t kLeast = 16 << 10;
  return std::clamp(all / size / kLeast * kLeast, kLeast, most);
}

// Returns a file that becomes readable when the process ends; -1 if the system does not support it.
int open_process(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

class ProcessFile {
 public:
  explicit ProcessFile(int file) : file_(file) {}
  ProcessFile(ProcessFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  ProcessFile& operator=(ProcessFile&&) = delete;
  ~ProcessFile() {
    if (file_ >= 0) {
      ::close(file_);
    }
  }
  bool is_open() const { return file_ >= 0; }
  bool has_ended() const {
    pollfd one{.fd = file_, .events = POLLIN, .revents = 0};
    return ::poll(&one, 1, 0) > 0;
  }

 private:
  int file_;
};

// Precedes each tensor. As long as a cache line, so that tensors stay aligned.
struct Header {
  alignas(64) uint64_t tag = 0;
  uint64_t bytes = 0;
};

// The transfer of one tensor, in one direction.
struct Transfer {
  at::Tensor tensor;
  uint64_t tag = 0;
  uint64_t done = 0;  // bytes
  bool is_begun = false;
  bool is_over = false;
  std::string failure = {};

  std::byte* memory() const { return static_cast<std::byte*>(tensor.mutable_data_ptr()); }
  uint64_t bytes() const { return tensor.nbytes(); }
};
using TransferPtr = std::shared_ptr<Transfer>;

// The connection between this rank and another one.
struct Peer {
  SharedInbox inbox;  // the peer's
  std::optional<ProcessFile> process;
  Ring to;                           // in the peer's inbox
  Ring from;                         // in this rank's inbox
  std::deque<TransferPtr> sending;   // in order
  std::deque<TransferPtr> awaiting;  // in any order
  TransferPtr arriving;
  std::string failure;  // why the connection ended; empty while it works
};

class MemoryChannels {
 public:
  MemoryChannels(SharedInbox own, std::vector<Peer> peers)
      : own_(std::move(own)), peers_(std::move(peers)) {}
  ~MemoryChannels() { abort(); }
  MemoryChannels(const MemoryChannels&) = delete;
  MemoryChannels& operator=(const MemoryChannels&) = delete;

  TransferPtr send(const at::Tensor& tensor, uint32_t to, uint64_t tag) {
    const std::lock_guard lock(mutex_);
    TransferPtr transfer = make(tensor, peers_[to], tag);
    if (!transfer->is_over) {
      peers_[to].sending.push_back(transfer);
      write_to(peers_[to]);
    }
    return transfer;
  }

  TransferPtr receive(const at::Tensor& tensor, uint32_t from, uint64_t tag) {
    const std::lock_guard lock(mutex_);
    TransferPtr transfer = make(tensor, peers_[from], tag);
    if (!transfer->is_over) {
      peers_[from].awaiting.push_back(transfer);
      if (peers_[from].from.num_unread() > 0) {
        own_.bell().ring();  // for threads that wait for a later message
      }
    }
    return transfer;
  }

  // Moves data in both directions until `transfer` is over.
  void wait(Transfer& transfer, AwakeClock::time_point end) {
    std::unique_lock lock(mutex_);
    for (;;) {
      const uint32_t seen = own_.bell().rings.load();
      move_all();
      if (transfer.is_over) {
        break;
      }
      const auto left = end - AwakeClock::now();
      if (left <= AwakeClock::duration::zero()) {
        throw std::runtime_error("Timed out waiting for memory to be written");
      }
      lock.unlock();
      const bool is_rung = own_.bell().sleep(seen, std::min<AwakeClock::duration>(left, kLook));
      lock.lock();
      if (!is_rung) {
        look_for_the_dead();
      }
    }
    if (!transfer.failure.empty()) {
      throw std::runtime_error(transfer.failure);
    }
  }

  void abort() {
    const std::lock_guard lock(mutex_);
    if (is_given_up_) {
      return;
    }
    is_given_up_ = true;
    own_.bell().has_left.store(1);
    for (Peer& peer : peers_) {
      give_up(peer, kGivenUp);
      if (peer.process.has_value()) {
        peer.inbox.bell().ring();
      }
    }
    own_.bell().ring();
  }

 private:
  static TransferPtr make(const at::Tensor& tensor, const Peer& peer, uint64_t tag) {
    return std::make_shared<Transfer>(Transfer{
        .tensor = tensor, .tag = tag, .is_over = !peer.failure.empty(), .failure = peer.failure});
  }

  void end(const TransferPtr& transfer, const std::string& failure = "") {
    transfer->failure = failure;
    transfer->is_over = true;
    transfer->tensor.reset();
    has_ended_any_ = true;
  }

  void give_up(Peer& peer, const std::string& why) {
    if (peer.failure.empty()) {
      peer.failure = why;
    }
    for (const TransferPtr& transfer : std::exchange(peer.sending, {})) {
      end(transfer, why);
    }
    for (const TransferPtr& transfer : std::exchange(peer.awaiting, {})) {
      end(transfer, why);
    }
    if (peer.arriving != nullptr) {
      end(std::exchange(peer.arriving, nullptr), why);
    }
  }

  void write_to(Peer& peer) {
    while (!peer.sending.empty()) {
      const uint64_t room = peer.to.room();
      if (room < sizeof(Header) && peer.to.want_more_than(room)) {
        return;
      }
      Transfer& transfer = *peer.sending.front();
      if (!transfer.is_begun) {
        const Header header{.tag = transfer.tag, .bytes = transfer.bytes()};
        peer.to.write(reinterpret_cast<const std::byte*>(&header), sizeof(header));
        transfer.is_begun = true;
      }
      transfer.done += peer.to.write(transfer.memory() + transfer.done,
                                     std::min(transfer.bytes() - transfer.done, kStretch));
      peer.inbox.bell().ring();
      if (transfer.done == transfer.bytes()) {
        end(std::exchange(peer.sending.front(), nullptr));
        peer.sending.pop_front();
      }
    }
  }

  void read_from(Peer& peer) {
    for (;;) {
      if (peer.arriving == nullptr && !begin_arrival(peer)) {
        return;
      }
      Transfer& transfer = *peer.arriving;
      const uint64_t count = peer.from.read(transfer.memory() + transfer.done,
                                            std::min(transfer.bytes() - transfer.done, kStretch));
      if (peer.from.take_request_for_room()) {
        peer.inbox.bell().ring();
      }
      transfer.done += count;
      if (transfer.done == transfer.bytes()) {
        end(std::exchange(peer.arriving, nullptr));
      } else if (count == 0) {
        return;
      }
    }
  }

  // Returns false if nothing has arrived, or if no transfer awaits the next message yet.
  static bool begin_arrival(Peer& peer) {
    Header header;
    if (peer.from.peek(reinterpret_cast<std::byte*>(&header), sizeof(header)) < sizeof(header)) {
      return false;
    }
    const auto found = std::ranges::find_if(
        peer.awaiting, [&](const TransferPtr& one) { return one->tag == header.tag; });
    if (found == peer.awaiting.end()) {
      return false;
    }
    peer.from.read(reinterpret_cast<std::byte*>(&header), sizeof(header));
    peer.arriving = *found;
    peer.awaiting.erase(found);
    if (header.bytes != peer.arriving->bytes()) {
      throw std::runtime_error(
          formatted("received {} bytes, expected {}", header.bytes, peer.arriving->bytes()));
    }
    return true;
  }

  void move_all() {
    for (Peer& peer : peers_) {
      if (!peer.process.has_value() || !peer.failure.empty()) {
        continue;
      }
      const bool has_left = peer.inbox.bell().has_left.load() != 0;  // read before its last bytes
      try {
        write_to(peer);
        read_from(peer);
      } catch (const std::exception& error) {
        give_up(peer, error.what());
      }
      if (has_left) {
        give_up(peer, "it canceled the group");
      }
    }
    tell_others();
  }

  // Wakes sleeping threads of this process whose transfers another thread has ended.
  void tell_others() {
    if (std::exchange(has_ended_any_, false) && own_.bell().num_sleepers.load() != 0) {
      own_.bell().ring();
    }
  }

  void look_for_the_dead() {
    for (Peer& peer : peers_) {
      if (peer.process.has_value() && peer.failure.empty() && peer.process->has_ended()) {
        try {
          read_from(peer);
        } catch (const std::exception& error) {
          give_up(peer, error.what());
        }
        give_up(peer, "its process has exited");
      }
    }
    tell_others();
  }

  std::mutex mutex_;
  SharedInbox own_;
  std::vector<Peer> peers_;  // by rank; the entry of this rank is empty
  bool is_given_up_ = false;
  bool has_ended_any_ = false;
};

class MemoryWork final : public c10d::Work {
 public:
  MemoryWork(std::shared_ptr<MemoryChannels> channels, TransferPtr transfer)
      : channels_(std::move(channels)), transfer_(std::move(transfer)) {}

  bool wait(milliseconds timeout) override {
    channels_->wait(*transfer_, AwakeClock::now() + timeout);
    return true;
  }

 private:
  const std::shared_ptr<MemoryChannels> channels_;
  const TransferPtr transfer_;
};

class MemoryBackend final : public c10d::Backend {
 public:
  MemoryBackend(uint32_t rank, uint32_t size, std::shared_ptr<MemoryChannels> channels)
      : Backend(static_cast<int>(rank), static_cast<int>(size)), channels_(std::move(channels)) {}
  ~MemoryBackend() override { channels_->abort(); }
  MemoryBackend(const MemoryBackend&) = delete;
  MemoryBackend& operator=(const MemoryBackend&) = delete;

  const std::string getBackendName() const override { return "memory"; }

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors,
                                      int peer,
                                      int tag) override {
    return c10::make_intrusive<MemoryWork>(
        channels_,
        channels_->send(tensors.at(0), static_cast<uint32_t>(peer), static_cast<uint64_t>(tag)));
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors,
                                      int peer,
                                      int tag) override {
    return c10::make_intrusive<MemoryWork>(
        channels_,
        channels_->receive(tensors.at(0), static_cast<uint32_t>(peer), static_cast<uint64_t>(tag)));
  }
  void abort() override { channels_->abort(); }

 private:
  const std::shared_ptr<MemoryChannels> channels_;  // works may outlive this
};

// Location of a rank's memory, as text: "PID FILE".
struct MemoryLocation {
  pid_t pid = 0;
  int file = -1;
};

MemoryLocation read_location(const std::string& text) {
  MemoryLocation location;
  const char* const end = text.data() + text.size();
  const auto [space, problem] = std::from_chars(text.data(), end, location.pid);
  if (problem != std::errc() || space == end ||
      std::from_chars(space + 1, end, location.file).ec != std::errc()) {
    throw std::runtime_error("another rank has no shared memory");
  }
  return location;
}

// Exchanges one word per rank on a question. Returns all words, by rank.
std::vector<std::string> exchange_words(c10d::Store& store,
                                        const std::string& question,
                                        uint32_t rank,
                                        uint32_t size,
                                        const std::string& word,
                                        milliseconds timeout) {
  std::vector<std::string> keys;
  for (uint32_t one = 0; one < size; ++one) {
    keys.push_back(formatted("{}/{}", question, one));
  }
  store.set(keys[rank], word);
  store.wait(keys, timeout);
  std::vector<std::string> words;
  for (const std::string& key : keys) {
    words.push_back(store.get_to_str(key));
  }
  return words;
}

}  // namespace

std::string memory_neighbourhood() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char processes[64] = "";
  const ssize_t length = ::readlink("/proc/self/ns/pid", processes, sizeof(processes));
  if (!ProcessFile(open_process(::getpid())).is_open() || boot.empty() || length <= 0) {
    return "";
  }
  return formatted(
      "{} {} {}", boot, std::string(processes, static_cast<size_t>(length)), ::geteuid());
}

c10::intrusive_ptr<c10d::Backend> make_memory_backend(
    c10d::Store& store, uint32_t rank, uint32_t size, MemoryRoom room, milliseconds timeout) {
  const uint64_t bytes = ring_bytes(room, size);
  SharedInbox own;
  std::string location = "none";
  try {
    own = SharedInbox::make(size, bytes);
    location = formatted("{} {}", ::getpid(), own.file());
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): reported to all below
  }
  const std::vector<std::string> locations =
      exchange_words(store, "memory", rank, size, location, timeout);
  std::vector<Peer> peers(size);
  bool is_open = location != "none";
  try {
    for (uint32_t peer = 0; is_open && peer < size; ++peer) {
      if (peer == rank) {
        continue;
      }
      const MemoryLocation there = read_location(locations[peer]);
      peers[peer].process.emplace(open_process(there.pid));
      is_open = peers[peer].process->is_open();
      peers[peer].inbox = SharedInbox::open(there.pid, there.file, size, bytes);
      peers[peer].to = peers[peer].inbox.ring_of(rank);
      peers[peer].from = own.ring_of(peer);
    }
  } catch (const std::exception&) {
    is_open = false;
  }
  const auto words =
      exchange_words(store, "memory opened", rank, size, is_open ? "yes" : "no", timeout);
  own.forget_file();
  if (std::ranges::count(words, "yes") != static_cast<std::ptrdiff_t>(size)) {
    return nullptr;
  }
  auto channels = std::make_shared<MemoryChannels>(std::move(own), std::move(peers));
  return c10::make_intrusive<MemoryBackend>(rank, size, std::move(channels));
}

}  // namespace tenon
