// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/tokenizer_check.hpp"

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

tenon_tokenizer_info tokenizer_info;

tenon_tokenizer tokenizer_table() {
  tokenizer_info = {sizeof(tokenizer_info), 256, -1, 10, -1, 1, 0, nullptr, nullptr, 0};
  tenon_tokenizer table{};
  table.struct_size = sizeof(table);
  table.describe = [](void*, tenon_tokenizer_info* out) -> tenon_status* {
    *out = tokenizer_info;
    return nullptr;
  };
  table.encode = [](void*, const tenon_encode_args*) -> tenon_status* { return nullptr; };
  table.decode = [](void*, const tenon_decode_args*) -> tenon_status* { return nullptr; };
  return table;
}

std::string tokenizer_error(const FakeComponent& fake) {
  try {
    static_cast<void>(describe_tokenizer(fake.make()));
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a tokenizer says what its ids are", "[plugin]") {
  const tenon_tokenizer good = tokenizer_table();
  const FakeComponent fake("tokenizer", TENON_TOKENIZER_ID, &good);
  const TokenizerInfo info = describe_tokenizer(fake.make());
  CHECK(info.vocab_size == 256);
  CHECK(info.bos == -1);
  CHECK(info.eos == 10);
  CHECK(info.bytes_per_token == 1);
}

TEST_CASE("a tokenizer that lacks a function or makes no sense is refused", "[plugin]") {
  tenon_tokenizer bad = tokenizer_table();
  const FakeComponent fake("tokenizer", TENON_TOKENIZER_ID, &bad);
  tokenizer_info.eos = 256;
  CHECK_THAT(tokenizer_error(fake), contains_text("the special id 256"));
  tokenizer_info.vocab_size = 0;
  CHECK_THAT(tokenizer_error(fake), contains_text("vocab_size 0"));
  bad.decode = nullptr;
  CHECK(tokenizer_error(fake) == missing_function("tokenizer", "decode"));
  bad.encode = nullptr;
  CHECK(tokenizer_error(fake) == missing_function("tokenizer", "encode"));
  bad.describe = nullptr;
  CHECK(tokenizer_error(fake) == missing_function("tokenizer", "describe"));
}
