// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/summed_read.hpp"

#include "host/error/error.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// One file in memory, whose reads fail from a byte on.
class OneFile final : public CheckpointStore {
 public:
  explicit OneFile(size_t bytes) : content_(bytes) {
    uint32_t random = 1;
    for (std::byte& byte : content_) {
      random = random * 1664525u + 1013904223u;
      byte = static_cast<std::byte>(random >> 24);
    }
  }
  const std::vector<std::byte>& content() const { return content_; }
  void fail_from(uint64_t byte) { sound_ = byte; }

  void read(const std::string&,
            const std::string&,
            uint64_t offset,
            std::span<std::byte> out) override {
    if (offset + out.size() > std::min<uint64_t>(sound_, content_.size())) {
      throw Error("storage.io", "cannot read byte " + std::to_string(offset));
    }
    std::memcpy(out.data(), content_.data() + offset, out.size());
  }

  void open(const std::string&, bool) override {}
  std::unique_ptr<CheckpointFile> create_file(const std::string&, const std::string&) override {
    return nullptr;
  }
  void commit(const std::string&) override {}
  void abort(const std::string&) override {}
  std::vector<std::string> list() override { return {}; }
  std::vector<std::string> list_files(const std::string&) override { return {}; }
  uint64_t file_size(const std::string&, const std::string&) override { return content_.size(); }
  void remove(const std::string&) override {}
  std::string address(const std::string& checkpoint) const override { return checkpoint; }

 private:
  std::vector<std::byte> content_;
  uint64_t sound_ = UINT64_MAX;
};

constexpr uint64_t kMiB = 1 << 20;

TEST_CASE("a stretch of any length is read and summed up in order", "[checkpoint][summed_read]") {
  OneFile file(23 * kMiB + 5);
  const uint64_t begin = GENERATE(uint64_t{0}, uint64_t{3 * kMiB + 1});
  const uint64_t length = GENERATE(uint64_t{0},
                                   uint64_t{1},
                                   uint64_t{2 * kMiB},
                                   uint64_t{8 * kMiB},
                                   uint64_t{9 * kMiB + 7},
                                   uint64_t{20 * kMiB});
  const auto expected = std::span(file.content()).subspan(begin, length);
  Checksum whole;
  whole.add(expected);
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<std::byte> out(length);
    Checksum sum;
    read_summed(file, "b", "f", begin, out, &sum);
    CHECK(std::ranges::equal(out, expected));
    CHECK(sum.value() == whole.value());
    std::ranges::fill(out, std::byte{0});
    read_summed(file, "b", "f", begin, out, nullptr);
    CHECK(std::ranges::equal(out, expected));
  }
}

TEST_CASE("a stretch goes on with a checksum that has begun", "[checkpoint][summed_read]") {
  OneFile file(21 * kMiB);
  std::vector<std::byte> out(file.content().size());
  Checksum whole;
  whole.add(file.content());
  Checksum sum;
  read_summed(file, "b", "f", 0, std::span(out).first(10 * kMiB), &sum);
  read_summed(file, "b", "f", 10 * kMiB, std::span(out).subspan(10 * kMiB), &sum);
  CHECK(sum.value() == whole.value());
}

TEST_CASE("a read that fails on either thread is told", "[checkpoint][summed_read]") {
  OneFile file(20 * kMiB);
  file.fail_from(GENERATE(uint64_t{0}, uint64_t{kMiB}, uint64_t{5 * kMiB}, uint64_t{19 * kMiB}));
  std::vector<std::byte> out(20 * kMiB);
  for (int turn = 0; turn < 5; ++turn) {
    Checksum sum;
    try {
      read_summed(file, "b", "f", 0, out, &sum);
      FAIL("it was read");
    } catch (const Error& error) {
      CHECK(error.id() == "storage.io");
    }
  }
}

}  // namespace
}  // namespace tenon
