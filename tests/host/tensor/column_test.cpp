// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/column.hpp"

#include <tenon/dataset.h>

#include "host/error/error.hpp"

#include <ATen/ATen.h>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

const std::vector<Axis> kList = {{.name = "", .size = -1}};

FieldInfo field(const std::string& name, uint32_t dtype, std::vector<Axis> axes) {
  return {.name = name, .dtype = dtype, .axes = std::move(axes)};
}

// A schema of each sort of column.
std::vector<FieldInfo> all_sorts() {
  FieldInfo bytes = field("title.values", TENON_U8, kList);
  bytes.flags = TENON_FIELD_TEXT;
  return {
      field("user", TENON_I64, {{.name = "B"}}),
      field("dense", TENON_F32, {{.name = "B"}, {.name = "", .size = 3}}),
      field("genres.values", TENON_I64, kList),
      field("genres.offsets", TENON_I64, kList),
      field("genres.weights", TENON_F32, kList),
      bytes,
      field("title.offsets", TENON_I64, kList),
      field("title.offsets.1", TENON_I64, kList),
      field("image", TENON_U8, {{.name = "B"}, {.name = "", .size = 2}, {.name = "", .size = 2}})};
}

at::Tensor ints(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

std::string refusal(std::vector<FieldInfo> fields, const std::string& name) {
  try {
    find_column(fields, name);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("fields make columns by their names", "[tensor]") {
  const std::vector<FieldInfo> fields = all_sorts();
  CHECK(find_column(fields, "user")->type == ColumnType{.dtype = TENON_I64});
  CHECK(find_column(fields, "dense")->type == ColumnType{.dtype = TENON_F32, .width = 3});
  const ColumnFields genres = *find_column(fields, "genres");
  CHECK(genres.type == ColumnType{.dtype = TENON_I64, .num_levels = 1, .has_weights = true});
  CHECK(genres.values == 2);
  CHECK(genres.offsets == std::vector<std::size_t>{3});
  CHECK(genres.weights == 4U);
  CHECK(find_column(fields, "title")->type ==
        ColumnType{.dtype = TENON_U8, .num_levels = 2, .is_text = true});
  CHECK_FALSE(find_column(fields, "item"));
  CHECK(column_names(fields) == std::vector<std::string>{"user", "dense", "genres", "title"});
  CHECK(describe(genres.type) == "i64, lists with weights");
  CHECK(describe(find_column(fields, "title")->type) == "text, lists");
  CHECK(describe(find_column(fields, "dense")->type) == "f32, 3 per sample");
}

TEST_CASE("the fields of a column make the same column again", "[tensor]") {
  const std::vector<FieldInfo> fields = all_sorts();
  for (const std::string& name : column_names(fields)) {
    const ColumnType type = find_column(fields, name)->type;
    INFO(name);
    CHECK(find_column(fields_of_column(name, type), name)->type == type);
  }
}

TEST_CASE("fields that make no column are refused by name", "[tensor]") {
  std::vector<FieldInfo> fields = all_sorts();
  CHECK_THAT(refusal(fields, "image"), contains_text("[data.bad_column] field \"image\""));
  fields[3].dtype = TENON_I32;
  CHECK_THAT(refusal(fields, "genres"), contains_text("offsets are i64"));
  fields[3].name = "other";
  CHECK_THAT(refusal(fields, "genres"), contains_text("no \"genres.offsets\""));
  fields[4].dtype = TENON_F64;
  fields[3] = all_sorts()[3];
  CHECK_THAT(refusal(fields, "genres"), contains_text("weights are f32"));
  fields[5].dtype = TENON_I64;
  CHECK_THAT(refusal(fields, "title"), contains_text("text is u8"));
}

TEST_CASE("columns that contradict themselves are told, with the sample", "[tensor]") {
  const ColumnType lists{.dtype = TENON_I64, .num_levels = 1};
  const auto why = [&](const Column& column, const ColumnType& type) {
    return why_not_column(column, type, 2).value_or("");
  };
  CHECK(why({ints({1, 2, 3}), {ints({0, 1, 3})}, {}}, lists).empty());
  CHECK(why({ints({}), {ints({0, 0, 0})}, {}}, lists).empty());
  CHECK(why({ints({1, 2, 3}), {ints({0, 4, 3})}, {}}, lists) ==
        "offsets of level 0 decrease from 4 to 3, at sample 1 of the batch");
  CHECK_THAT(why({ints({1, 2, 3}), {ints({0, 1, 2})}, {}}, lists),
             contains_text("end with 2, expected 3"));
  CHECK_THAT(why({ints({1, 2, 3}), {ints({1, 1, 3})}, {}}, lists),
             contains_text("start with 1, expected 0"));
  CHECK_THAT(why({ints({1, 2, 3}), {ints({0, 3})}, {}}, lists), contains_text("expected i64 [3]"));
  CHECK_THAT(why({ints({1, 2, 3}), {}, {}}, lists), contains_text("0 levels of offsets"));
  CHECK_THAT(why({at::ones({3}), {ints({0, 1, 3})}, {}}, lists), contains_text("expected i64"));
  CHECK_THAT(why({ints({1, 2, 3}), {ints({0, 1, 3})}, at::ones({3})}, lists),
             contains_text("there are weights, expected none"));
  const ColumnType weighted{.dtype = TENON_I64, .num_levels = 1, .has_weights = true};
  CHECK(why({ints({1, 2, 3}), {ints({0, 1, 3})}, at::ones({3})}, weighted).empty());
  CHECK_THAT(why({ints({1, 2, 3}), {ints({0, 1, 3})}, at::ones({2})}, weighted),
             contains_text("expected f32 [3]"));
  // Two lists of texts with 3 texts of 4 bytes, and a weight for each text.
  const ColumnType texts{.dtype = TENON_U8, .num_levels = 2, .is_text = true, .has_weights = true};
  const at::Tensor bytes = at::zeros({4}, at::kByte);
  CHECK(why({bytes, {ints({0, 1, 3}), ints({0, 1, 1, 4})}, at::ones({3})}, texts).empty());
  CHECK_THAT(why({bytes, {ints({0, 1, 3}), ints({0, 2, 1, 4})}, at::ones({3})}, texts),
             contains_text("at entry 1 of the batch"));
  CHECK_THAT(why({bytes, {ints({0, 1, 3}), ints({0, 1, 1, 4})}, at::ones({4})}, texts),
             contains_text("expected f32 [3]"));
  CHECK(why({at::zeros({2, 3}), {}, {}}, {.dtype = TENON_F32, .width = 3}).empty());
  CHECK_THAT(why({at::zeros({2, 4}), {}, {}}, {.dtype = TENON_F32, .width = 3}),
             contains_text("[2, 4], expected [2, 3]"));
  CHECK(why({at::zeros({2, 4}), {}, {}}, {.dtype = TENON_F32, .width = -1}).empty());
  CHECK_THAT(why({at::zeros({3}), {}, {}}, {.dtype = TENON_F32}), contains_text("expected [2]"));
}

}  // namespace tenon
