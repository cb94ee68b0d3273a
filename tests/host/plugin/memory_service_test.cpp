// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/memory_service.hpp"

#include "host/error/status.hpp"

#include <cstdint>
#include <cstring>

#include "tests/support/catch.hpp"

using namespace tenon;

TEST_CASE("scratch memory is aligned and writable", "[plugin]") {
  const tenon_memory_api* const memory = memory_service();
  for (const std::size_t bytes : {1u, 64u, 65u, 1000000u}) {
    void* block = nullptr;
    REQUIRE(memory->allocate(nullptr, bytes, &block) == nullptr);
    CHECK(reinterpret_cast<uintptr_t>(block) % 64 == 0);
    std::memset(block, 7, bytes);
    memory->release(block);
  }
}

TEST_CASE("no bytes are no memory, and releasing null is nothing", "[plugin]") {
  void* block = &block;
  REQUIRE(memory_service()->allocate(nullptr, 0, &block) == nullptr);
  CHECK(block == nullptr);
  memory_service()->release(nullptr);
}

TEST_CASE("memory that is not there is an error that states the size", "[plugin]") {
  void* block = nullptr;
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX / 2}) {
    const StatusText status = take(memory_service()->allocate(nullptr, bytes, &block));
    CHECK(status.code == TENON_OUT_OF_MEMORY);
    CHECK_THAT(status.message, contains_text(std::to_string(bytes) + " bytes"));
    CHECK(block == nullptr);
  }
  CHECK(take(memory_service()->allocate(nullptr, 1, nullptr)).code == TENON_INVALID);
}
