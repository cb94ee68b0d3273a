// SPDX-License-Identifier: Apache-2.0
#include "host/error/status.hpp"
#include "host/plugin/tokenizer_check.hpp"

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

// The results of a call are appended to `out`; errors of the tokenizer are thrown.
void encode(const tenon::ComponentInstance& tokenizer,
            const std::string& text,
            std::vector<int32_t>& out) {
  const tenon_encode_args args{sizeof args, text.data(), text.size(), append<int32_t>, &out};
  tokenizer.check(table_of(tokenizer).encode(tokenizer.self(), &args));
}
void decode(const tenon::ComponentInstance& tokenizer,
            const std::vector<int32_t>& ids,
            std::vector<char>& out) {
  const tenon_decode_args args{sizeof args, ids.data(), ids.size(), append<char>, &out};
  tokenizer.check(table_of(tokenizer).decode(tokenizer.self(), &args));
}

}  // namespace

TEST_CASE("the byte tokenizer has 256 ids of one byte each and none that is special", "[plugins]") {
  const tenon::TokenizerInfo info =
      tenon::describe_tokenizer(tenon::make_component("tokenizer", "byte"));
  CHECK(info.vocab_size == 256);
  CHECK(info.bytes_per_token == 1);
  CHECK(info.bos == -1);
  CHECK(info.eos == -1);
  CHECK(info.pad == -1);
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
    encode(byte, text, ids);
    REQUIRE(ids.size() == size);
    for (size_t i = 0; i < size; ++i) {
      REQUIRE(ids[i] == static_cast<int32_t>(i * 7 % 256));
    }
    std::vector<char> back;
    decode(byte, ids, back);
    CHECK(std::string(back.begin(), back.end()) == text);
  }
}

TEST_CASE("the byte tokenizer refuses ids that are no bytes, and says where", "[plugins]") {
  const tenon::ComponentInstance byte = tenon::make_component("tokenizer", "byte");
  std::vector<char> out;
  for (const int32_t bad : {-1, 256}) {
    const std::vector<int32_t> ids = {1, 2, bad};
    const std::string error = tenon::error_of([&] { decode(byte, ids, out); });
    CHECK_THAT(error, tenon::contains_text("id " + std::to_string(bad) + " at position 2"));
  }
}

TEST_CASE("what a sink of the byte tokenizer returns comes back to the caller", "[plugins]") {
  const tenon::ComponentInstance byte = tenon::make_component("tokenizer", "byte");
  const auto refuse = [](void*, const int32_t*, size_t) -> tenon_status* {
    return tenon::make_status(nullptr, TENON_IO, "test.full", "no more room");
  };
  const tenon_encode_args args{sizeof args, "abc", 3, refuse, nullptr};
  const std::string error =
      tenon::error_of([&] { byte.check(table_of(byte).encode(byte.self(), &args)); });
  CHECK_THAT(error, tenon::contains_text("no more room"));
}
