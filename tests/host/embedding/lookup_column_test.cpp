// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/lookup_column.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

FieldInfo column_field(const std::string& name, uint32_t dtype, size_t num_axes) {
  FieldInfo info;
  info.name = name;
  info.dtype = dtype;
  info.axes.resize(num_axes);
  return info;
}

LookupUse column_lookup(const std::string& column, uint32_t pooling = TENON_POOL_NONE) {
  return {.value = column + "_value", .column = column, .table = 0, .pooling = {.kind = pooling}};
}

}  // namespace

TEST_CASE("columns are checked against lookups before there is data", "[embedding]") {
  const auto check = [](const LookupUse& use, const std::vector<FieldInfo>& fields) {
    try {
      check_lookup_columns({use}, fields, "dataset \"d\"");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const FieldInfo fixed = column_field("a", TENON_I64, 1);
  const FieldInfo values = column_field("a.values", TENON_I64, 1);
  const FieldInfo offsets = column_field("a.offsets", TENON_I64, 1);
  CHECK(check(column_lookup("a"), {fixed}).empty());
  CHECK(check(column_lookup("a", TENON_POOL_SUM), {values, offsets}).empty());
  CHECK_THAT(check(column_lookup("b"), {fixed, values}),
             contains_text("[table.column_missing]") && contains_text("a, a.values"));
  CHECK_THAT(
      check(column_lookup("a"), {values, offsets}),
      contains_text("[table.column_mismatch]") && contains_text("ragged, without a pooling"));
  CHECK_THAT(check(column_lookup("a"), {column_field("a", TENON_F32, 1)}),
             contains_text("are not i64"));
  CHECK_THAT(check(column_lookup("a"), {column_field("a", TENON_I64, 3)}), contains_text("3 axes"));
  CHECK_THAT(check(column_lookup("a", TENON_POOL_WEIGHTED_MEAN), {values, offsets}),
             contains_text("no weights"));
  CHECK_THAT(check(column_lookup("a", TENON_POOL_SUM),
                   {values, offsets, column_field("a.offsets.1", TENON_I64, 1)}),
             contains_text("lists of lists"));
}

TEST_CASE("ids that a model computes are taken as they are", "[embedding]") {
  const LookupIds ids =
      lookup_ids(column_lookup(""), at::tensor({3, 1, 3, 2}, at::kLong).view({2, 2}), nullptr);
  CHECK(ids.num_samples == 2);
  CHECK(ids.per_sample == 2);
  CHECK(ids.is_matrix);
  CHECK(ids.num_entries() == 4);
  CHECK_FALSE(ids.offsets.defined());
  CHECK_THROWS_WITH(lookup_ids(column_lookup(""), at::ones({2, 2}), nullptr),
                    contains_text("[table.bad_ids]") && contains_text("ids are i64 [B] or [B, n]"));
}

TEST_CASE("a lookup over positions reads the ids of a part, also from a whole column",
          "[embedding]") {
  FieldInfo cut = column_field("cut", TENON_I64, 2);
  cut.axes[1].name = "T";
  Batch batch;
  batch.schema = std::make_shared<std::vector<FieldInfo>>(
      std::vector<FieldInfo>{column_field("whole", TENON_I64, 2), cut});
  const at::Tensor ids = at::arange(10).view({2, 5});
  const at::Tensor part = ids.narrow(1, 3, 2);
  batch.fields = {ids, part};
  batch.samples = 2;
  batch.positions = {
      .range = {.begin = 3, .length = 2}, .whole = 5, .sequences = {}, .position_ids = {}};
  const auto found = [&batch](const std::string& column, bool is_over_positions) {
    LookupUse use = column_lookup(column);
    use.is_over_positions = is_over_positions;
    return lookup_ids(use, {}, &batch).ids;
  };
  CHECK(found("whole", true).equal(part.reshape(-1)));
  CHECK(found("cut", true).equal(part.reshape(-1)));
  CHECK(found("whole", false).equal(ids.view(-1)));
  batch.positions->whole = 6;
  CHECK_THROWS_WITH(
      found("whole", true),
      contains_text("[table.bad_ids]") && contains_text("5 ids for sequences of 6 positions"));
}

}  // namespace tenon
