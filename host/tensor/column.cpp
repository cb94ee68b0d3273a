// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/column.hpp"

#include <tenon/dataset.h>

#include "host/error/error.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/field_match.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <span>

namespace tenon {
namespace {

std::string level_name(std::string_view name, std::size_t level) {
  return level == 0 ? formatted("{}.offsets", name) : formatted("{}.offsets.{}", name, level);
}

// True if a field has the axes of values, offsets or weights of a ragged column.
bool is_list(const FieldInfo& field) {
  return field.axes.size() == 1 && field.axes.front().name != "B";
}

[[noreturn]] void refuse(const FieldInfo& field, const std::string& wanted) {
  throw Error("data.bad_column",
              "field \"" + field.name + "\" is " +
                  describe(Described{.dtype = field.dtype, .axes = &field.axes}) + ", but " +
                  wanted);
}

std::size_t find_level(const std::vector<FieldInfo>& schema,
                       std::string_view name,
                       std::size_t level) {
  const std::optional<std::size_t> found = find_field(schema, level_name(name, level));
  return found ? *found : schema.size();
}

// Returns the defect of offsets that split `below` entries into `num_pieces` pieces.
std::optional<std::string> why_not_offsets(const at::Tensor& offsets,
                                           int64_t num_pieces,
                                           int64_t below,
                                           std::size_t level) {
  if (!offsets.defined() || offsets.scalar_type() != at::kLong || offsets.dim() != 1 ||
      !offsets.is_contiguous() || offsets.size(0) != num_pieces + 1) {
    return formatted("offsets of level {} are {}, expected i64 [{}]",
                     level,
                     offsets.defined() ? shape_text(offsets.sizes()) : "absent",
                     num_pieces + 1);
  }
  const std::span<const int64_t> values(offsets.const_data_ptr<int64_t>(),
                                        static_cast<std::size_t>(num_pieces) + 1);
  if (values.front() != 0) {
    return formatted("offsets of level {} start with {}, expected 0", level, values.front());
  }
  const auto fall = std::ranges::adjacent_find(values, std::ranges::greater());
  if (fall != values.end()) {
    return formatted("offsets of level {} decrease from {} to {}, at {} {} of the batch",
                     level,
                     *fall,
                     *(fall + 1),
                     level == 0 ? "sample" : "entry",
                     fall - values.begin());
  }
  if (values.back() != below) {
    return formatted(
        "offsets of level {} end with {}, expected {}, the number of items that they divide",
        level,
        values.back(),
        below);
  }
  return std::nullopt;
}

}  // namespace

std::string describe(const ColumnType& type) {
  std::string text = type.is_text ? "text" : dtype_name(type.dtype);
  const std::size_t lists = type.num_levels - (type.is_text ? 1 : 0);
  if (lists == 0) {
    text += type.width == 0  ? ", one per sample"
            : type.width < 0 ? ", a fixed number per sample"
                             : formatted(", {} per sample", type.width);
  } else {
    text += lists == 1 ? ", lists" : formatted(", lists in {} levels", lists);
  }
  return text + (type.has_weights ? " with weights" : "");
}

std::optional<ColumnFields> find_column(const std::vector<FieldInfo>& schema,
                                        std::string_view name) {
  ColumnFields found;
  if (const std::optional<std::size_t> at = find_field(schema, name)) {
    const FieldInfo& field = schema[*at];
    if (field.axes.empty() || field.axes.size() > 2 || field.axes.front().name != "B") {
      refuse(field, "a column is [B] or [B, n]");
    }
    found.values = *at;
    found.type = {.dtype = field.dtype, .width = field.axes.size() == 1 ? 0 : field.axes[1].size};
    return found;
  }
  const std::optional<std::size_t> values = find_field(schema, std::string(name) + ".values");
  if (!values) {
    return std::nullopt;
  }
  found.values = *values;
  const FieldInfo& field = schema[*values];
  if (!is_list(field)) {
    refuse(field, "the values of a column have one axis without a name");
  }
  found.type.dtype = field.dtype;
  found.type.is_text = (field.flags & TENON_FIELD_TEXT) != 0;
  if (found.type.is_text && field.dtype != TENON_U8) {
    refuse(field, "text is u8");
  }
  for (std::size_t level = 0;; ++level) {
    const std::size_t at = find_level(schema, name, level);
    if (at == schema.size()) {
      break;
    }
    if (schema[at].dtype != TENON_I64 || !is_list(schema[at])) {
      refuse(schema[at], "offsets are i64 with one axis without a name");
    }
    found.offsets.push_back(at);
  }
  if (found.offsets.empty()) {
    throw Error("data.bad_column",
                "field \"" + field.name + "\" has no \"" + level_name(name, 0) +
                    "\" to assign the values to samples");
  }
  found.type.num_levels = found.offsets.size();
  found.weights = find_field(schema, std::string(name) + ".weights");
  found.type.has_weights = found.weights.has_value();
  if (found.weights) {
    const FieldInfo& weights = schema[*found.weights];
    if (weights.dtype != TENON_F32 || !is_list(weights) ||
        (found.type.is_text && found.type.num_levels == 1)) {
      refuse(weights, "weights are f32 with one axis without a name, of a column of lists");
    }
  }
  return found;
}

std::vector<std::string> column_names(const std::vector<FieldInfo>& schema) {
  constexpr std::string_view kValues = ".values";
  std::vector<std::string> names;
  for (const FieldInfo& field : schema) {
    const bool is_ragged = field.name.ends_with(kValues);
    if (is_ragged) {
      names.push_back(field.name.substr(0, field.name.size() - kValues.size()));
    } else if (!field.axes.empty() && field.axes.front().name == "B" && field.axes.size() <= 2) {
      names.push_back(field.name);
    }
  }
  return names;
}

std::vector<FieldInfo> fields_of_column(const std::string& name, const ColumnType& type) {
  if (type.num_levels == 0) {
    std::vector<Axis> axes = {{.name = "B", .size = -1}};
    if (type.width != 0) {
      axes.push_back({.name = "", .size = type.width});
    }
    return {{.name = name, .dtype = type.dtype, .axes = std::move(axes)}};
  }
  const std::vector<Axis> list = {{.name = "", .size = -1}};
  std::vector<FieldInfo> fields = {{.name = name + ".values",
                                    .dtype = type.dtype,
                                    .flags = type.is_text ? uint32_t{TENON_FIELD_TEXT} : 0U,
                                    .axes = list}};
  for (std::size_t level = 0; level < type.num_levels; ++level) {
    fields.push_back({.name = level_name(name, level), .dtype = TENON_I64, .axes = list});
  }
  if (type.has_weights) {
    fields.push_back({.name = name + ".weights", .dtype = TENON_F32, .axes = list});
  }
  return fields;
}

std::vector<at::Tensor> Column::tensors() const {
  std::vector<at::Tensor> all = {values};
  all.insert(all.end(), offsets.begin(), offsets.end());
  if (weights.defined()) {
    all.push_back(weights);
  }
  return all;
}

Column column_of(const Batch& batch, const ColumnFields& fields) {
  Column column{.values = batch.fields[fields.values], .offsets = {}, .weights = {}};
  for (const std::size_t at : fields.offsets) {
    column.offsets.push_back(batch.fields[at]);
  }
  if (fields.weights) {
    column.weights = batch.fields[*fields.weights];
  }
  return column;
}

std::optional<std::string> why_not_column(const Column& column,
                                          const ColumnType& type,
                                          int64_t samples) {
  const at::Tensor& values = column.values;
  if (!values.defined()) {
    return "there are no values";
  }
  if (!values.is_cpu() || !values.is_contiguous()) {
    return "the values are not contiguous on the CPU";
  }
  if (dtype_of(values.scalar_type()) != type.dtype) {
    return "the values are " + std::string(c10::toString(values.scalar_type())) + ", expected " +
           dtype_name(type.dtype);
  }
  if (column.weights.defined() != type.has_weights) {
    return type.has_weights ? "there are no weights" : "there are weights, expected none";
  }
  if (column.offsets.size() != type.num_levels) {
    return formatted(
        "there are {} levels of offsets, expected {}", column.offsets.size(), type.num_levels);
  }
  if (type.num_levels == 0) {
    const bool is_good = values.dim() == (type.width == 0 ? 1 : 2) && values.size(0) == samples &&
                         (type.width <= 0 || values.size(1) == type.width);
    if (is_good) {
      return std::nullopt;
    }
    const std::string width = type.width < 0 ? "any" : std::to_string(type.width);
    return formatted("the values are {}, expected [{}{}]",
                     shape_text(values.sizes()),
                     samples,
                     type.width == 0 ? "" : ", " + width);
  }
  if (values.dim() != 1) {
    return "the values are " + shape_text(values.sizes()) + ", expected one axis";
  }
  int64_t num_pieces = samples;
  int64_t num_entries = values.size(0);
  for (std::size_t level = 0; level < column.offsets.size(); ++level) {
    const bool is_last = level + 1 == column.offsets.size();
    const int64_t below = is_last ? values.size(0)
                          : column.offsets[level + 1].defined()
                              ? column.offsets[level + 1].numel() - 1
                              : 0;
    if (auto why = why_not_offsets(column.offsets[level], num_pieces, below, level)) {
      return why;
    }
    num_entries = is_last && type.is_text ? num_pieces : num_entries;
    num_pieces = below;
  }
  if (type.has_weights) {
    const at::Tensor& weights = column.weights;
    if (weights.scalar_type() != at::kFloat || weights.dim() != 1 || !weights.is_contiguous() ||
        weights.size(0) != num_entries) {
      return formatted("the weights are {} {}, expected f32 [{}]",
                       c10::toString(weights.scalar_type()),
                       shape_text(weights.sizes()),
                       num_entries);
    }
  }
  return std::nullopt;
}

}  // namespace tenon
