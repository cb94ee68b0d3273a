// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/batch.hpp"

#include <tenon/tensor.h>

#include <ATen/ATen.h>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

Batch make_batch() {
  Batch batch;
  batch.schema = std::make_shared<const std::vector<FieldInfo>>(std::vector<FieldInfo>{
      {.name = "input_ids", .dtype = TENON_I64, .axes = {{"B", -1}, {"T", 8}}},
      {.name = "labels", .dtype = TENON_I64, .axes = {{"B", -1}, {"T", 8}}, .pad = -100.0},
      {.name = "weight", .dtype = TENON_F32, .axes = {{"B", -1}}},
  });
  batch.fields = {at::zeros({2, 8}, at::kLong), at::Tensor(), at::ones({2})};
  batch.samples = 2;
  return batch;
}

TEST_CASE("a batch finds its fields by name", "[tensor]") {
  const Batch batch = make_batch();
  REQUIRE(batch.find("weight") != nullptr);
  CHECK(batch.find("weight")->is_same(batch.fields[2]));
  CHECK(find_field(*batch.schema, "labels") == size_t{1});
}

TEST_CASE("a field that is not there is null", "[tensor]") {
  const Batch batch = make_batch();
  CHECK(batch.find("labels") == nullptr);  // left out by the dataset
  CHECK(batch.find("image") == nullptr);   // not in the schema
  CHECK(Batch().find("weight") == nullptr);
  CHECK_FALSE(find_field(*batch.schema, "image"));
}

TEST_CASE("a batch counts the bytes of the fields it has", "[tensor]") {
  CHECK(make_batch().num_bytes() == 2 * 8 * 8 + 2 * 4);
}

}  // namespace
}  // namespace tenon
