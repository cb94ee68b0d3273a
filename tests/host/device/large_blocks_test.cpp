// SPDX-License-Identifier: Apache-2.0

#include "host/device/large_blocks.hpp"

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST_CASE("freed large blocks are joined and given out again", "[device][large]") {
  LargeBlocks blocks(1024 * kMiB);
  void* const a = blocks.take(10 * kMiB);
  void* const b = blocks.take(10 * kMiB);
  void* const c = blocks.take(10 * kMiB);
  void* const last = blocks.take(kMiB);
  const size_t held = blocks.held_bytes();
  blocks.give_back(a);
  blocks.give_back(c);
  CHECK(blocks.take(20 * kMiB) != nullptr);  // neither is enough
  CHECK(blocks.held_bytes() > held);
  const size_t more = blocks.held_bytes();
  blocks.give_back(b);
  CHECK(blocks.take(30 * kMiB) == a);
  CHECK(blocks.held_bytes() == more);
  CHECK(blocks.owns(last));
  CHECK_FALSE(blocks.owns(&held));
  CHECK(blocks.size_of(last) >= kMiB);
}

TEST_CASE("the smallest free block that fits is taken, and the last one grows", "[device][large]") {
  LargeBlocks blocks(1024 * kMiB);
  void* const wide = blocks.take(8 * kMiB);
  const void* const between = blocks.take(kMiB);
  void* const narrow = blocks.take(3 * kMiB);
  void* const end = blocks.take(kMiB);
  CHECK(between != nullptr);
  blocks.give_back(wide);
  blocks.give_back(narrow);
  CHECK(blocks.take(2 * kMiB) == narrow);
  const size_t held = blocks.held_bytes();
  blocks.give_back(end);
  CHECK(blocks.take(16 * kMiB) <= end);  // what was left of the block before is part of it
  CHECK(blocks.held_bytes() < held + 16 * kMiB);
}

TEST_CASE("what does not fit in the range, or in no memory, is refused", "[device][large]") {
  LargeBlocks blocks(8 * kMiB);
  CHECK(blocks.take(9 * kMiB) == nullptr);
  CHECK(blocks.take(SIZE_MAX - 10) == nullptr);
  void* const block = blocks.take(7 * kMiB);
  REQUIRE(block != nullptr);
  CHECK(blocks.take(2 * kMiB) == nullptr);
  blocks.give_back(block);
  CHECK(blocks.take(7 * kMiB) == block);
  LargeBlocks none(SIZE_MAX / 2);  // so many addresses there are not
  CHECK(none.take(kMiB) == nullptr);
  CHECK_FALSE(none.owns(block));
}

// Against a list of what each block was filled with.
TEST_CASE("no two large blocks share a byte, on any thread", "[device][large]") {
  LargeBlocks blocks(4096 * kMiB);
  const auto churn = [&blocks](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<unsigned char*, size_t>> held;
    for (int i = 0; i < 2'000; ++i) {
      if (held.size() < 20 && random() % 3 != 0) {
        const size_t bytes = 1 + random() % (256 * 1024);
        auto* const block = static_cast<unsigned char*>(blocks.take(bytes));
        if (block == nullptr || reinterpret_cast<uintptr_t>(block) % 64 != 0 ||
            blocks.size_of(block) < bytes) {
          return false;
        }
        std::memset(block, static_cast<int>(bytes % 251), bytes);
        held.emplace_back(block, bytes);
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        const auto [block, bytes] = held.back();
        for (size_t at = 0; at < bytes; ++at) {
          if (block[at] != bytes % 251) {
            return false;
          }
        }
        blocks.give_back(block);
        held.pop_back();
      }
    }
    for (const auto& [block, bytes] : held) {
      blocks.give_back(block);
    }
    return true;
  };
  bool first = false;
  bool second = false;
  std::thread one([&] { first = churn(1); });
  std::thread two([&] { second = churn(2); });
  one.join();
  two.join();
  CHECK(first);
  CHECK(second);
  CHECK(blocks.take(blocks.held_bytes() - 64 * 1024) != nullptr);  // all is one free block again
}

}  // namespace
}  // namespace tenon
