// SPDX-License-Identifier: Apache-2.0
#include "host/error/status.hpp"
#include "host/plugin/tokenizer_proxy.hpp"

#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"

namespace {

const tenon_tokenizer& table_of(const tenon::ComponentInstance& instance) {
  return *static_cast<const tenon_tokenizer*>(instance.descriptor().table);
}

template <class T>
tenon_status* append(void* context, const T* data, size_t n) {
  auto& out = *static_cast<std::vector<T>*>(context);
  out.insert(out.end(), data, data + n);
  return nullptr;
}

}  // namespace

TEST_CASE("the byte tokenizer has 256 ids of one byte each and none that is special", "[plugins]") {
  const tenon::TokenizerProxy byte(tenon::make_component("tokenizer", "byte"));
  CHECK(byte.info().vocab_size == 256);
  CHECK(byte.info().bytes_per_token == 1);
  CHECK(byte.info().bos == -1);
  CHECK(byte.info().eos == -1);
  CHECK(byte.info().pad == -1);
}

TEST_CASE("the byte tokenizer gives back all bytes, in texts of any length", "[plugins]") {
  const tenon::ComponentInstance byte = tenon::make_component("tokenizer", "byte");
  for (const size_t size : {0, 1, 255, 4095, 4096, 4097, 100000}) {
    CAPTURE(size);
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) {
      text[i] = static_cast<char>(i * 7 % 256);
    }
    std::vector<int32_t> ids;
    byte.check(table_of(byte).encode(byte.self(), text.data(), size, append<int32_t>, &ids));
    REQUIRE(ids.size() == size);
    for (size_t i = 0; i < size; ++i) {
      REQUIRE(ids[i] == static_cast<int32_t>(i * 7 % 256));
    }
    std::vector<char> back;
    byte.check(table_of(byte).decode(byte.self(), ids.data(), size, append<char>, &back));
    CHECK(std::string(back.begin(), back.end()) == text);
  }
}

TEST_CASE("the byte tokenizer refuses ids that are no bytes, and says where", "[plugins]") {
  const tenon::ComponentInstance byte = tenon::make_component("tokenizer", "byte");
  std::vector<char> out;
  for (const int32_t bad : {-1, 256}) {
    const std::vector<int32_t> ids = {1, 2, bad};
    const std::string error = tenon::error_of([&] {
      byte.check(table_of(byte).decode(byte.self(), ids.data(), ids.size(), append<char>, &out));
    });
    CHECK_THAT(error, tenon::contains_text("id " + std::to_string(bad) + " at position 2"));
  }
}

TEST_CASE("what a sink of the byte tokenizer returns comes back to the caller", "[plugins]") {
  const tenon::ComponentInstance byte = tenon::make_component("tokenizer", "byte");
  const auto refuse = [](void*, const int32_t*, size_t) -> tenon_status* {
    return tenon::make_status(nullptr, TENON_IO, "test.full", "no more room");
  };
  const std::string error = tenon::error_of(
      [&] { byte.check(table_of(byte).encode(byte.self(), "abc", 3, refuse, nullptr)); });
  CHECK_THAT(error, tenon::contains_text("no more room"));
}
