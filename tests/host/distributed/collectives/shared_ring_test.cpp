// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/shared_ring.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <sys/mman.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::vector<std::byte> bytes_from(size_t first, size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>((first + i) * 31 % 251);
  }
  return bytes;
}

TEST_CASE("a ring gives back what was written, around its end and from another mapping",
          "[distributed]") {
  const SharedInbox own = SharedInbox::make(2, 128);
  const SharedInbox other = SharedInbox::open(::getpid(), own.file(), 2, 128);
  Ring to = other.ring_of(1);
  Ring from = own.ring_of(1);
  size_t written = 0;
  size_t read = 0;
  for (const size_t count : {100, 28, 77, 128, 1, 300}) {
    const std::vector<std::byte> bytes = bytes_from(written, count);
    written += to.write(bytes.data(), count);
    CHECK(written - read == std::min<size_t>(count, 128));
    std::array<std::byte, 50> peeked{};
    CHECK(from.peek(peeked.data(), peeked.size()) == std::min<size_t>(count, 50));
    CHECK((peeked[0] == bytes[0]));
    std::vector<std::byte> found(count);
    read += from.read(found.data(), count);
    CHECK(read == written);
    found.resize(std::min<size_t>(count, 128));
    CHECK(std::ranges::equal(found, std::span(bytes).first(found.size())));
  }
  CHECK(own.ring_of(0).num_unread() == 0);
}

TEST_CASE("a writer that wants room is told of it once", "[distributed]") {
  const SharedInbox own = SharedInbox::make(1, 64);
  Ring ring = own.ring_of(0);
  const std::vector<std::byte> bytes = bytes_from(0, 64);
  CHECK_FALSE(ring.take_request_for_room());
  CHECK(ring.write(bytes.data(), 64) == 64);
  CHECK(ring.room() == 0);
  CHECK(ring.want_more_than(0));
  CHECK_FALSE(ring.want_more_than(10));  // it has another number by now
  CHECK(ring.take_request_for_room());
  CHECK_FALSE(ring.take_request_for_room());
}

TEST_CASE("a bell wakes who sleeps, and not for what it has told already", "[distributed]") {
  const SharedInbox own = SharedInbox::make(1, 64);
  Bell& bell = own.bell();
  const uint32_t before = bell.rings.load();
  bell.ring();
  CHECK(bell.sleep(before, std::chrono::hours(1)));
  CHECK_FALSE(bell.sleep(bell.rings.load(), std::chrono::milliseconds(1)));
  const uint32_t seen = bell.rings.load();
  const std::jthread ringer([&bell] { bell.ring(); });
  CHECK(bell.sleep(seen, std::chrono::hours(1)));
}

TEST_CASE("memory of another process that is no inbox of this size is refused", "[distributed]") {
  const SharedInbox own = SharedInbox::make(1, 64);
  CHECK_THROWS_AS(SharedInbox::open(::getpid(), own.file(), 1, 128), std::system_error);
  CHECK_THROWS_AS(SharedInbox::open(::getpid(), own.file(), 2, 64), std::system_error);
  // No writer can shorten it, which would end the process that reads it.
  CHECK(::ftruncate(own.file(), 1) != 0);
  const int unsealed = ::memfd_create("other", MFD_CLOEXEC);
  REQUIRE(::ftruncate(unsealed, 4096) == 0);
  CHECK_THROWS_AS(SharedInbox::open(::getpid(), unsealed, 1, 64), std::system_error);
  ::close(unsealed);
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  CHECK_THROWS_AS(SharedInbox::open(::getpid(), pipe[1], 1, 64), std::system_error);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_CASE("memory that is closed cannot be opened by others", "[distributed]") {
  SharedInbox own = SharedInbox::make(1, 64);
  const int file = own.file();
  own.forget_file();
  CHECK_THROWS_AS(SharedInbox::open(::getpid(), file, 1, 64), std::system_error);
}

}  // namespace
}  // namespace tenon
