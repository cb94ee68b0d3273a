// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/shared_ring.hpp"

#include "host/text/formatted.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

// Positions are published after each piece of at most this many bytes.
constexpr uint64_t kPiece = 128 << 10;

[[noreturn]] void fail_call(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// Bytes in front of the data of the rings.
uint64_t head_bytes(uint32_t num_ranks) {
  return sizeof(Bell) + num_ranks * sizeof(RingEnds);
}

// The size of the memory stays: access beyond the end of a file would end the process.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The store says which file of which process it is. Anything else is refused before it is mapped.
void check_memory_file(int file, uint64_t bytes) {
  struct stat found {};
  if (::fstat(file, &found) != 0) {
    fail_call("cannot look at shared memory of another rank");
  }
  const bool is_own = S_ISREG(found.st_mode) && found.st_uid == ::geteuid() &&
                      found.st_size == static_cast<off_t>(bytes) &&
                      ::fcntl(file, F_GET_SEALS) == kSeals;
  if (!is_own) {
    errno = EINVAL;
    fail_call("the shared memory of another rank is not what it should be");
  }
}

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

}  // namespace

void Bell::ring() {
  rings.fetch_add(1);
  if (num_sleepers.load() != 0) {
    syscall(SYS_futex, &rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

bool Bell::sleep(uint32_t seen, std::chrono::nanoseconds limit) {
  const timespec time{.tv_sec = limit.count() / 1'000'000'000,
                      .tv_nsec = limit.count() % 1'000'000'000};
  num_sleepers.fetch_add(1);
  const long status = syscall(SYS_futex, &rings, FUTEX_WAIT, seen, &time, nullptr, 0);
  const bool is_late = status != 0 && errno == ETIMEDOUT;
  num_sleepers.fetch_sub(1);
  return !is_late;
}

uint64_t Ring::write(const std::byte* from, uint64_t bytes) {
  uint64_t at = ends->written.load(std::memory_order_relaxed);
  const uint64_t total = std::min(bytes, room());
  for (uint64_t done = 0; done < total;) {
    const uint64_t offset = at % capacity;
    const uint64_t count = std::min({total - done, capacity - offset, kPiece});
    std::memcpy(memory + offset, from + done, count);
    done += count;
    at += count;
    ends->written.store(at);
  }
  return total;
}

uint64_t Ring::room() const {
  return capacity - (ends->written.load(std::memory_order_relaxed) - ends->read.load());
}

bool Ring::want_more_than(uint64_t room) {
  ends->is_room_wanted.store(1);
  return this->room() == room;
}

uint64_t Ring::read(std::byte* to, uint64_t bytes) {
  uint64_t at = ends->read.load(std::memory_order_relaxed);
  const uint64_t total = std::min(bytes, num_unread());
  for (uint64_t done = 0; done < total;) {
    const uint64_t offset = at % capacity;
    const uint64_t count = std::min({total - done, capacity - offset, kPiece});
    std::memcpy(to + done, memory + offset, count);
    done += count;
    at += count;
    ends->read.store(at);
  }
  return total;
}

uint64_t Ring::peek(std::byte* to, uint64_t bytes) const {
  const uint64_t total = std::min(bytes, num_unread());
  const uint64_t offset = ends->read.load(std::memory_order_relaxed) % capacity;
  const uint64_t before_end = std::min(total, capacity - offset);
  std::memcpy(to, memory + offset, before_end);
  std::memcpy(to + before_end, memory, total - before_end);
  return total;
}

uint64_t Ring::num_unread() const {
  return ends->written.load() - ends->read.load(std::memory_order_relaxed);
}

bool Ring::take_request_for_room() {
  return ends->is_room_wanted.load() != 0 && ends->is_room_wanted.exchange(0) != 0;
}

SharedInbox SharedInbox::make(uint32_t num_ranks, uint64_t ring_bytes) {
  SharedInbox inbox;
  inbox.file_ = ::memfd_create("tenon ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (inbox.file_ < 0) {
    fail_call("cannot create shared memory");
  }
  const auto bytes = static_cast<off_t>(head_bytes(num_ranks) + num_ranks * ring_bytes);
  if (::ftruncate(inbox.file_, bytes) != 0 || ::fcntl(inbox.file_, F_ADD_SEALS, kSeals) != 0) {
    fail_call("cannot allocate shared memory");
  }
  inbox.map(inbox.file_, num_ranks, ring_bytes);
  return inbox;
}

SharedInbox SharedInbox::open(pid_t pid, int file, uint32_t num_ranks, uint64_t ring_bytes) {
  const std::string path = formatted("/proc/{}/fd/{}", pid, file);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (opened < 0) {
    fail_call("cannot open shared memory of another rank");
  }
  SharedInbox inbox;
  inbox.file_ = opened;
  check_memory_file(opened, head_bytes(num_ranks) + num_ranks * ring_bytes);
  inbox.map(opened, num_ranks, ring_bytes);
  inbox.forget_file();
  return inbox;
}

SharedInbox::SharedInbox(SharedInbox&& other) noexcept {
  *this = std::move(other);
}

SharedInbox& SharedInbox::operator=(SharedInbox&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(num_ranks_, other.num_ranks_);
  std::swap(ring_bytes_, other.ring_bytes_);
  return *this;
}

SharedInbox::~SharedInbox() {
  forget_file();
  if (memory_ != nullptr) {
    ::munmap(memory_, bytes_);
  }
}

void SharedInbox::forget_file() {
  if (file_ >= 0) {
    ::close(std::exchange(file_, -1));
  }
}

void SharedInbox::map(int file, uint32_t num_ranks, uint64_t ring_bytes) {
  num_ranks_ = num_ranks;
  ring_bytes_ = ring_bytes;
  bytes_ = head_bytes(num_ranks) + num_ranks * ring_bytes;
  void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    fail_call("cannot map shared memory");
  }
  memory_ = static_cast<std::byte*>(memory);
}

Bell& SharedInbox::bell() const {
  return *reinterpret_cast<Bell*>(memory_);
}

Ring SharedInbox::ring_of(uint32_t writer) const {
  return {.ends = reinterpret_cast<RingEnds*>(memory_ + sizeof(Bell)) + writer,
          .memory = memory_ + head_bytes(num_ranks_) + writer * ring_bytes_,
          .capacity = ring_bytes_};
}

}  // namespace tenon
