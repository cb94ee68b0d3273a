// SPDX-License-Identifier: Apache-2.0
#include "host/data/part_message.hpp"

#include "host/tensor/batch_positions.hpp"

#include <ATen/Functions.h>

#include <memory>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

BatchSchema schema_of(const std::vector<at::Tensor>& fields) {
  std::vector<FieldInfo> schema(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    schema[i].name = "f" + std::to_string(i);
  }
  return std::make_shared<const std::vector<FieldInfo>>(std::move(schema));
}

}  // namespace

TEST_CASE("a part returns from its message", "[data]") {
  Batch part;
  part.fields = {at::arange(6, at::kLong).view({2, 3}),
                 at::tensor({1, 0, 1}, at::kLong).to(at::kBool),
                 at::scalar_tensor(1.5, at::kBFloat16),
                 at::empty({2, 0, 4}),
                 at::Tensor(),
                 at::arange(200, at::kDouble).view({100, 2}).t()};
  part.schema = schema_of(part.fields);
  part.samples = 2;
  part.tokens = 70'000'000'000;
  part.lengths = at::tensor({2, 3}, at::kLong);
  part.sequences = {{.row = 0, .first = 0, .length = 2, .part = 7}, {.row = 1, .length = 3}};
  part.row_parts = {4, UINT32_MAX};
  part.packed_samples = 0;
  part.positions = BatchPositions{.range = {.begin = 5, .length = 3},
                                  .whole = 9,
                                  .sequences = {{.row = 1, .first = 2, .length = 6}},
                                  .position_ids = position_ids({.begin = 5, .length = 3}, 2)};
  const at::Tensor message = encode_part(part, 12);
  CHECK(message.numel() % 64 == 0);
  const Batch got = decode_part(message, part.schema, 12);
  CHECK(got.schema == part.schema);
  REQUIRE(got.fields.size() == part.fields.size());
  for (size_t i = 0; i < part.fields.size(); ++i) {
    CAPTURE(i);
    REQUIRE(got.fields[i].defined() == part.fields[i].defined());
    if (part.fields[i].defined()) {
      CHECK(got.fields[i].scalar_type() == part.fields[i].scalar_type());
      CHECK(got.fields[i].sizes() == part.fields[i].sizes());
      CHECK(got.fields[i].is_contiguous());
      CHECK(reinterpret_cast<uintptr_t>(got.fields[i].const_data_ptr()) % 64 == 0);
      CHECK(got.fields[i].equal(part.fields[i]));
    }
  }
  CHECK(got.samples == 2);
  CHECK(got.tokens == part.tokens);
  CHECK(got.lengths.equal(part.lengths));
  CHECK((got.sequences == part.sequences));
  CHECK(got.row_parts == part.row_parts);
  CHECK(got.packed_samples == part.packed_samples);
  REQUIRE(got.positions.has_value());
  CHECK((got.positions->range == part.positions->range));
  CHECK(got.positions->whole == 9);
  CHECK((got.positions->sequences == part.positions->sequences));
  CHECK(got.positions->position_ids.equal(part.positions->position_ids));
}

TEST_CASE("a batch without samples returns from its message", "[data]") {
  Batch part;
  part.fields = {at::Tensor(), at::Tensor()};
  part.schema = schema_of(part.fields);
  const Batch got = decode_part(encode_part(part, 0), part.schema, 0);
  REQUIRE(got.fields.size() == 2);
  CHECK_FALSE(got.fields[0].defined());
  CHECK_FALSE(got.lengths.defined());
  CHECK(got.samples == 0);
  CHECK_FALSE(got.packed_samples.has_value());
  CHECK_FALSE(got.positions.has_value());
}

TEST_CASE("an error returns from its message with id and text", "[data]") {
  for (const std::string text : {"", "sample 7 cannot be read", "three bytes: \xe2\x82\xac"}) {
    try {
      decode_part(encode_failure(Error("plugin.failed", text), 3), schema_of({}), 3);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.id() == "plugin.failed");
      CHECK(error.message() == text);
    }
  }
}

}  // namespace tenon
