// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/batch_positions.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

Batch batch_of(int64_t samples, int64_t positions) {
  Batch batch;
  batch.schema = std::make_shared<std::vector<FieldInfo>>(
      std::vector<FieldInfo>{{.name = "ids", .axes = {{"B", -1}, {"T", -1}}},
                             {.name = "weight", .axes = {{"B", -1}}},
                             {.name = "turned", .axes = {{"T", -1}, {"", 2}}},
                             {.name = "absent", .axes = {{"B", -1}, {"T", -1}}}});
  batch.fields = {at::arange(samples * positions).view({samples, positions}),
                  at::arange(samples),
                  at::arange(2 * positions).view({positions, 2}),
                  at::Tensor()};
  batch.samples = samples;
  batch.tokens = samples * positions;
  return batch;
}

}  // namespace

TEST_CASE("the parts of ranks are a whole, in order, and differ by at most one position",
          "[tensor]") {
  for (int64_t whole = 0; whole < 20; ++whole) {
    for (uint32_t count = 1; count < 7; ++count) {
      int64_t begin = 0;
      for (uint32_t r = 0; r < count; ++r) {
        const PositionRange range = positions_of_rank(whole, r, count);
        CHECK(range.begin == begin);
        CHECK(range.length >= whole / count);
        CHECK(range.length <= (whole + count - 1) / count);
        begin += range.length;
      }
      CHECK(begin == whole);
    }
  }
}

TEST_CASE("parts of a batch, joined, are the batch", "[tensor]") {
  const Batch batch = batch_of(3, 7);
  for (const uint32_t count : {1U, 2U, 3U, 9U}) {
    std::vector<at::Tensor> ids;
    std::vector<at::Tensor> turned;
    std::vector<at::Tensor> positions;
    for (uint32_t r = 0; r < count; ++r) {
      const Batch part = part_of_rank(batch, r, count);
      REQUIRE(part.positions.has_value());
      CHECK(part.positions->whole == 7);
      CHECK(part.samples == 3);
      CHECK(part.fields[0].is_contiguous());
      CHECK(part.fields[1].equal(batch.fields[1]));
      CHECK_FALSE(part.fields[3].defined());
      ids.push_back(part.fields[0]);
      turned.push_back(part.fields[2]);
      positions.push_back(*part.find("position_ids"));
    }
    CHECK(at::cat(ids, 1).equal(batch.fields[0]));
    CHECK(at::cat(turned, 0).equal(batch.fields[2]));
    CHECK(at::cat(positions, 1).equal(at::arange(7).expand({3, 7})));
  }
}

TEST_CASE("a part has the lengths and sequences inside of it, and that of a rank all lengths",
          "[tensor]") {
  Batch batch = batch_of(2, 8);
  batch.lengths = at::tensor(std::vector<int64_t>{3, 8});
  batch.sequences = {{.row = 0, .first = 0, .length = 3, .part = 0},
                     {.row = 1, .first = 0, .length = 5, .part = 1},
                     {.row = 1, .first = 5, .length = 3, .part = 0}};
  const Batch part = narrow_positions(batch, {.begin = 4, .length = 4});
  CHECK(part.lengths.equal(at::tensor(std::vector<int64_t>{0, 4})));
  const std::vector<BatchSequence> inside = {{.row = 1, .first = 0, .length = 1, .part = 1},
                                             {.row = 1, .first = 1, .length = 3, .part = 0}};
  CHECK((part.sequences == inside));

  // What reads lengths runs on whole sequences.
  const Batch of_rank = part_of_rank(batch, 1, 2);
  CHECK(of_rank.lengths.equal(batch.lengths));
  CHECK((of_rank.sequences == inside));
}

TEST_CASE("a batch without samples or positions", "[tensor]") {
  Batch batch = batch_of(0, 0);
  CHECK_FALSE(part_of_rank(batch, 1, 2).positions.has_value());
  batch.samples = 2;
  batch.schema = std::make_shared<std::vector<FieldInfo>>(
      std::vector<FieldInfo>{{.name = "age", .axes = {{"B", -1}}}});
  batch.fields = {at::zeros({2})};
  CHECK_THROWS_AS(part_of_rank(batch, 0, 2), Error);
}

}  // namespace tenon
