// SPDX-License-Identifier: Apache-2.0
//
// Input columns of recommendation models: options that name them, their lookups and inputs in the
// graph, and their concatenation into one matrix. How a model uses the columns is outside this
// file.
#pragma once

#include <tenon/cpp/options.hpp>
#include <tenon/torch/model.hpp>

#include <ATen/ATen.h>

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "size_limits.hpp"

namespace tenon {

/* A column with a fixed number of ids per sample, from one table. */
struct WideColumn {
  std::string name;
  int64_t size = 1;
  static void bind(OptionBinder<WideColumn>& b) {
    b.field("name", &WideColumn::name).required().non_empty().doc("batch field, i64 [B, size]");
    b.field("size", &WideColumn::size).required().min(1).max(kMaxWidth).doc("ids per sample");
  }
};

/* A dense column of numbers. */
struct DenseColumn {
  std::string name;
  std::optional<int64_t> size;
  int64_t width() const { return size.value_or(1); }
  static void bind(OptionBinder<DenseColumn>& b) {
    b.field("name", &DenseColumn::name).required().non_empty().doc("batch field, floating point");
    b.field("size", &DenseColumn::size)
        .min(1)
        .max(kMaxWidth)
        .doc("width, for a field of shape [B, size]; null: shape [B]");
  }
};

/* Columns of ids. */
struct IdColumns {
  std::vector<std::string> categorical;
  std::vector<WideColumn> wide;
  std::vector<std::string> ragged;
  uint32_t pooling = TENON_POOL_SUM;
};

template <class O>
void bind_id_columns(OptionBinder<O>& b) {
  b.field("categorical", &O::categorical)
      .doc(
          "columns with one id per sample and a table each; \"c0..c25\" expands to c0, c1, ..., "
          "c25");
  b.field("wide", &O::wide).doc("columns with a fixed number of ids per sample and a table each");
  b.field("ragged", &O::ragged)
      .doc(
          "columns with any number of ids per sample and a table each; rows are pooled by "
          "`pooling`");
  b.choice("pooling",
           &O::pooling,
           {{"sum", TENON_POOL_SUM},
            {"mean", TENON_POOL_MEAN},
            {"weighted_sum", TENON_POOL_WEIGHTED_SUM},
            {"weighted_mean", TENON_POOL_WEIGHTED_MEAN},
            {"max", TENON_POOL_MAX}})
      .doc("pooling of a ragged column's rows into one");
}

/* Options shared by the models: columns and table rows. */
struct ColumnOptions : IdColumns {
  std::vector<DenseColumn> dense;
  int64_t dim = 16;
  double init_std = 0.01;
};

template <class O>
void bind_columns(OptionBinder<O>& b) {
  bind_id_columns(b);
  b.field("dense", &O::dense).doc("dense columns of numbers");
  b.field("dim", &O::dim).min(1).max(kMaxRowWidth).doc("embedding dimension: width of a table row");
  b.field("init_std", &O::init_std)
      .min(0)
      .doc("standard deviation of initial row values; the recipe's `tables` can override it");
}

/* Dropout of a model's dense layers. */
template <class O>
void bind_dropout(OptionBinder<O>& b) {
  b.field("dropout", &O::dropout)
      .min(0)
      .exclusive_max(1)
      .doc("dropout probability of hidden layers in training");
}

/* Expands "c0..c3" to c0, c1, c2, c3. Any other name stays unchanged.
 *
 * Errors   columns.range for decreasing numbers */
inline std::vector<std::string> expanded(const std::vector<std::string>& names) {
  const auto cut = [](const std::string& text) {
    size_t end = text.size();
    while (end > 0 && std::isdigit(static_cast<unsigned char>(text[end - 1])) != 0) {
      --end;
    }
    return std::pair(text.substr(0, end), text.substr(end));
  };
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const size_t dots = name.find("..");
    const auto [stem, first] = cut(name.substr(0, dots));
    const auto [other, last] = cut(dots == std::string::npos ? name : name.substr(dots + 2));
    if (dots == std::string::npos || stem != other || first.empty() || last.empty() ||
        last.size() > 6 || first.size() > 6) {
      out.push_back(name);
      continue;
    }
    if (std::stol(first) > std::stol(last)) {
      TENON_FAIL(TENON_INVALID, "columns.range", "the column range ", name, " is decreasing");
    }
    for (int64_t i = std::stol(first); i <= std::stol(last); ++i) {
      out.push_back(stem + std::to_string(i));
    }
  }
  return out;
}

/* Lookups of columns, in the order categorical, wide, ragged. They give `num_rows` rows per sample;
 * a wide column gives one row per id. */
struct ColumnLookups {
  std::vector<ValueId> values;
  std::vector<int64_t> rows; /* per lookup */
  int64_t num_rows = 0;
};

/* Declares the lookups. Values are named `prefix` + column; tables are named column + `suffix`.
 *
 * Errors   columns.none if no column is set */
inline ColumnLookups look_up_columns(TorchGraph& g,
                                     const IdColumns& columns,
                                     const std::string& prefix,
                                     const std::string& suffix,
                                     int64_t dim,
                                     double init_std) {
  ColumnLookups out;
  Lookup lookup;
  lookup.init = Init::normal(0.0, init_std);
  const auto add = [&](const std::string& column, Axes axes, uint32_t pooling, int64_t rows) {
    lookup.table = column + suffix;
    lookup.pooling = pooling;
    out.values.push_back(g.graph().lookup(prefix + column, std::move(axes), column, lookup));
    out.rows.push_back(rows);
    out.num_rows += rows;
  };
  for (const std::string& column : expanded(columns.categorical)) {
    add(column, {"B", dim}, TENON_POOL_NONE, 1);
  }
  for (const WideColumn& column : columns.wide) {
    add(column.name, {"B", column.size, dim}, TENON_POOL_NONE, column.size);
  }
  for (const std::string& column : expanded(columns.ragged)) {
    add(column, {"B", dim}, columns.pooling, 1);
  }
  if (out.values.empty()) {
    TENON_FAIL(TENON_INVALID,
               "columns.none",
               "`categorical`, `wide` and `ragged` are empty; set at least one id column");
  }
  return out;
}

/* Dense columns as model inputs, and their total width. */
struct DenseInputs {
  std::vector<ValueId> values;
  int64_t width = 0;
};

inline DenseInputs add_dense(TorchGraph& g, const std::vector<DenseColumn>& columns) {
  DenseInputs out;
  for (const DenseColumn& column : columns) {
    Axes axes = {"B"};
    if (column.size) {
      axes.emplace_back(*column.size);
    }
    out.values.push_back(g.input(column.name, std::move(axes), TENON_CLASS_FLOAT));
    out.width += column.width();
  }
  return out;
}

/* Concatenates inputs `first` to `end` of a block to [B, all their elements].
 *
 * Shapes   each input [B] or [B, ...] */
inline at::Tensor side_by_side(const BlockCall& call, size_t first, size_t end) {
  std::vector<at::Tensor> parts;
  parts.reserve(end - first);
  for (size_t i = first; i < end; ++i) {
    const at::Tensor& part = call.input(i);
    parts.push_back(part.dim() == 2 ? part : part.reshape({part.size(0), -1}));
  }
  return parts.size() == 1 ? parts.front() : at::cat(parts, 1);
}

}  // namespace tenon
