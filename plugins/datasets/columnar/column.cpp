// SPDX-License-Identifier: Apache-2.0
#include "column.hpp"

#include <tenon/cpp/options.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "arrow_status.hpp"

namespace tenon {
namespace {

template <class T>
void take_values(const std::shared_ptr<arrow::Array>& leaf,
                 const ElementRanges& ranges,
                 StringHash hash,
                 double fill,
                 const OnNull& on_null,
                 const OnBadOffset& on_bad_offset,
                 std::shared_ptr<const void>& memory,
                 const T*& data) {
  if (ranges.size() == 1) {
    data = plain_values<T>(*leaf, ranges.front());
    if (data != nullptr) {
      memory = leaf;
      return;
    }
  }
  auto values = std::make_shared<std::vector<T>>(static_cast<size_t>(num_elements(ranges)));
  copy_values<T>(*leaf, ranges, hash, static_cast<T>(fill), on_null, on_bad_offset, values->data());
  data = values->data();
  memory = std::move(values);
}

// Maps index i of the concatenated ranges to an element of the array.
int64_t row_at(const ElementRanges& ranges, size_t i) {
  auto left = static_cast<int64_t>(i);
  for (const ElementRange& range : ranges) {
    if (left < range.end - range.begin) {
      return range.begin + left;
    }
    left -= range.end - range.begin;
  }
  return -1;
}

struct SliceRanges {
  ElementRange entries;  // of the outermost level
  ElementRange values;   // of the data
};

SliceRanges ranges_of(const RowSlice& slice, bool is_nested) {
  const auto within = [](const std::vector<int64_t>& offsets, const ElementRange& range) {
    return ElementRange{offsets[static_cast<size_t>(range.begin)],
                        offsets[static_cast<size_t>(range.end)]};
  };
  const ElementRange entries = within(slice.rows->offsets, {slice.begin, slice.end});
  return {entries, is_nested ? within(slice.rows->inner_offsets, entries) : entries};
}

// Appends the ends of `range` after *last, shifted to continue from it. Returns the new last
// offset.
int64_t* append_offsets(const std::vector<int64_t>& from,
                        const ElementRange& range,
                        int64_t* last) {
  const int64_t shift = *last - from[static_cast<size_t>(range.begin)];
  for (int64_t i = range.begin + 1; i <= range.end; ++i) {
    *++last = from[static_cast<size_t>(i)] + shift;
  }
  return last;
}

// Copies elements of `size` units of T each. Returns the end of the copy.
template <class T>
T* append(const T* from, const ElementRange& range, T* to, size_t size) {
  const size_t count = static_cast<size_t>(range.end - range.begin) * size;
  if (count > 0) {
    std::memcpy(to, from + static_cast<size_t>(range.begin) * size, count * sizeof(T));
  }
  return to + count;
}

}  // namespace

std::string RowOrigin::at_row(int64_t row) const {
  return concat(file, ": row group ", group, ", row ", first_row + row);
}

Column::Column(ColumnOptions options) : options_(std::move(options)) {
  check_column_options(options_);
}

void Column::add(const arrow::Schema& schema, const std::string& file) {
  const std::vector<std::string> sources = sources_in(options_, schema, file);
  const ColumnForm* const known = form_ ? &*form_ : nullptr;
  const ColumnForm here = form_in(options_, sources, schema, file, known);
  if (known == nullptr) {
    sources_ = sources;
    form_ = here;
    return;
  }
  check_sources(sources, file);
  form_ = joined(options_, *known, here);
}

void Column::resolve(Later later) {
  form_ = completed(options_, *form_, later);
}

void Column::check(const arrow::Schema& schema, const std::string& file) const {
  const std::vector<std::string> sources = sources_in(options_, schema, file);
  check_sources(sources, file);
  const ColumnForm here = form_in(options_, sources, schema, file, &*form_);
  const ColumnForm both = joined(options_, *form_, here);
  if (!both.has_shape_of(*form_)) {
    // Text that is inferred as another type than the text of the files that resolved the column.
    TENON_FAIL(TENON_INVALID,
               "columnar.wrong_type",
               file,
               ": the column ",
               json_string(options_.name),
               " would be read as ",
               here.text(),
               ", but as ",
               form_->text(),
               " in ",
               form_->file,
               "; set `type`");
  }
}

void Column::check_sources(const std::vector<std::string>& sources, const std::string& file) const {
  if (sources != sources_) {
    TENON_FAIL(TENON_INVALID,
               "columnar.no_column",
               file,
               ": the source columns of ",
               json_string(options_.name),
               " differ from those in ",
               form_->file);
  }
}

std::string Column::resolved_unit() const {
  return is_time(form_->meaning.kind) ? concat(options_.name, " in ", name_of(form_->meaning.unit))
                                      : "";
}

void Column::declare(DatasetInfo& info) {
  const uint32_t dtype = form_->dtype();
  if (form_->levels == 0) {
    Axes axes = {"B"};
    if (form_->width > 0) {
      axes.emplace_back(form_->width);
    }
    field_ = info.field(options_.name, std::move(axes), dtype);
    return;
  }
  const Axes any = {Axis(-1)};
  field_ = info.field(options_.name + ".values",
                      any,
                      dtype,
                      0.0,
                      form_->type == ColumnType::kText ? TENON_FIELD_TEXT : 0);
  info.field(options_.name + ".offsets", any, TENON_I64);
  if (form_->levels == 2) {
    info.field(options_.name + ".offsets.1", any, TENON_I64);
  }
  if (form_->has_weights) {
    info.field(options_.name + ".weights", any, TENON_F32);
  }
}

std::vector<SourceArray> Column::arrays_of(const arrow::RecordBatch& batch) const {
  std::vector<SourceArray> out;
  const bool has_weights = options_.weights.has_value();
  for (size_t i = 0; i < sources_.size(); ++i) {
    SourceArray source;
    const int index = batch.schema()->GetFieldIndex(sources_[i]);
    source.array = index < 0 ? nullptr : batch.column(index);
    const std::shared_ptr<arrow::DataType>& type = form_->types[i];
    if (source.array == nullptr || source.array->type_id() == arrow::Type::NA) {
      source.array =
          value_of(arrow::MakeArrayOfNull(type == nullptr ? arrow::null() : type, batch.num_rows()),
                   sources_[i],
                   "cannot be filled");
    }
    const bool are_weights = has_weights && i + 1 == sources_.size();
    LeafTarget target{.type = are_weights ? ColumnType::kF32 : form_->type,
                      .is_hashed = options_.hash != StringHash::kNone && !are_weights,
                      .meaning = form_->meaning,
                      .nan_is_missing = options_.missing != Missing::kError};
    const ValueMeaning from = index < 0 ? meaning_of(*shape_of(source.array->type()).leaf)
                                        : meaning_of(*batch.schema()->field(index));
    target.meaning.is_unsigned = is_unsigned(type, from);
    if (from.is_untyped && form_->type == ColumnType::kIds && !target.is_hashed && !are_weights) {
      source.texts = std::dynamic_pointer_cast<arrow::LargeBinaryArray>(source.array);
    }
    source.array = converted(source.array, from, target, source.bad);
    if (form_->is_map) {
      source.array = with_plain_weights(source.array, target.nan_is_missing, source.bad_weights);
    }
    out.push_back(std::move(source));
  }
  return out;
}

bool Column::skips(const std::vector<SourceArray>& sources, int64_t row) const {
  return skips_rows() &&
         std::any_of(sources.begin(), sources.end(), [&](const SourceArray& source) {
           return has_null(*source.array, row);
         });
}

void Column::check_values(const BadElements& bad,
                          const ElementRanges& ranges,
                          const RowOrigin& origin,
                          const std::string& column,
                          const std::function<int64_t(int64_t)>& row_of) const {
  if (bad.empty()) {
    return;
  }
  for (const ElementRange& range : ranges) {
    const auto found = bad.lower_bound(range.begin);
    if (found != bad.end() && found->first < range.end) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.bad_value",
                 origin.of_row(row_of(found->first)),
                 "the column ",
                 json_string(column),
                 " ",
                 found->second);
    }
  }
}

void Column::check_leaf(const SourceArray& source,
                        const arrow::Array& leaf,
                        const ElementRanges& ranges,
                        const RowOrigin& origin,
                        const std::string& column,
                        const std::function<int64_t(int64_t)>& row_of) const {
  check_values(source.bad, ranges, origin, column, row_of);
  if (form_->type == ColumnType::kIds && options_.hash == StringHash::kNone &&
      !is_time(form_->meaning.kind)) {
    signs_->add(column, signed_ids_in(leaf, source.texts.get(), ranges), [&](int64_t element) {
      return origin.at_row(row_of(element));
    });
  }
}

void Column::fail_null(const RowOrigin& origin, int64_t row, const std::string& column) const {
  TENON_FAIL(TENON_INVALID,
             "columnar.null",
             origin.of_row(row),
             "the column ",
             json_string(column),
             " has a null; set `missing` to \"fill\" or \"skip_row\" to accept nulls");
}

void Column::fail_offsets(const RowOrigin& origin,
                          int64_t row,
                          const std::string& column,
                          const std::string& what) const {
  TENON_FAIL(TENON_INVALID,
             "columnar.bad_offsets",
             origin.of_row(row),
             "the column ",
             json_string(column),
             " ",
             what);
}

ColumnRows Column::read_side_by_side(const std::vector<SourceArray>& sources,
                                     const ElementRanges& rows,
                                     const RowOrigin& origin) const {
  const auto n = static_cast<size_t>(num_elements(rows));
  const size_t width = sources_.size();
  const auto put_together = [&](auto zero) {
    using T = decltype(zero);
    auto whole = std::make_shared<std::vector<T>>(n * width);
    for (size_t j = 0; j < width; ++j) {
      std::shared_ptr<const void> memory;
      const T* values = nullptr;
      check_leaf(sources[j], *sources[j].array, rows, origin, sources_[j], [](int64_t row) {
        return row;
      });
      take_values<T>(
          sources[j].array,
          rows,
          options_.hash,
          options_.fill,
          [&](int64_t row) {
            if (options_.missing == Missing::kError) {
              fail_null(origin, row, sources_[j]);
            }
          },
          [&](int64_t row) {
            fail_offsets(
                origin, row, sources_[j], "has corrupt offsets (decreasing or out of range)");
          },
          memory,
          values);
      T* out = whole->data() + j;
      for (size_t i = 0; i < n; ++i) {
        out[i * width] = values[i];
      }
    }
    ColumnRows out;
    out.data = reinterpret_cast<const char*>(whole->data());
    out.memory = std::move(whole);
    return out;
  };
  return form_->type == ColumnType::kIds   ? put_together(int64_t{0})
         : form_->type == ColumnType::kF32 ? put_together(0.0F)
                                           : put_together(0.0);
}

void Column::read_values(const std::shared_ptr<arrow::Array>& leaf,
                         const ElementRanges& ranges,
                         const OnNull& on_null,
                         const OnBadOffset& on_bad_offset,
                         ColumnRows& out) const {
  const auto take = [&](auto zero) {
    const decltype(zero)* data = nullptr;
    take_values(
        leaf, ranges, options_.hash, options_.fill, on_null, on_bad_offset, out.memory, data);
    out.data = reinterpret_cast<const char*>(data);
  };
  switch (form_->type) {
    case ColumnType::kIds:
      take(int64_t{0});
      return;
    case ColumnType::kF32:
      take(0.0F);
      return;
    case ColumnType::kF64:
      take(0.0);
      return;
    default:
      break;
  }
  std::vector<int64_t>& offsets = form_->list_levels == 0 ? out.offsets : out.inner_offsets;
  offsets.assign(1, 0);
  auto bytes =
      std::make_shared<std::string>(copy_text(*leaf, ranges, offsets, on_null, on_bad_offset));
  out.data = bytes->data();
  out.memory = std::move(bytes);
}

// Each row must have as many weights as entries.
void Column::read_weights(const std::vector<SourceArray>& sources,
                          const ElementRanges& rows,
                          const RowOrigin& origin,
                          ColumnRows& out) const {
  const std::string& name = sources_.back();
  const arrow::Array& cut = *sources.back().array;
  const auto on_null = [&](int64_t row) {
    if (options_.missing == Missing::kError) {
      fail_null(origin, row, name);
    }
  };
  const auto on_bad = [&](int64_t row) {
    fail_offsets(origin, row, name, "has corrupt offsets (decreasing or out of range)");
  };
  std::vector<int64_t> offsets = {0};
  const ElementRanges entries = open_lists(cut, rows, offsets, on_null, on_bad);
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] != out.offsets[i]) {
      fail_offsets(origin,
                   row_at(rows, i - 1),
                   name,
                   concat("has ",
                          offsets[i] - offsets[i - 1],
                          " weights for ",
                          out.offsets[i] - out.offsets[i - 1],
                          " entries"));
    }
  }
  const std::shared_ptr<arrow::Array> leaf = form_->is_map ? map_values_of(cut) : entries_of(cut);
  check_values(form_->is_map ? sources.back().bad_weights : sources.back().bad,
               entries,
               origin,
               name,
               [&](int64_t entry) { return list_of_entry(cut, entry); });
  take_values<float>(
      leaf,
      entries,
      StringHash::kNone,
      options_.fill,
      [&](int64_t entry) {
        if (options_.missing == Missing::kError) {
          fail_null(origin, list_of_entry(cut, entry), name);
        }
      },
      on_bad,
      out.weights_memory,
      out.weights);
}

// Lists of one length, some of them null. A null list becomes `length` copies of the fill value.
ColumnRows Column::read_filled(const SourceArray& source,
                               const ElementRanges& rows,
                               const RowOrigin& origin) const {
  const auto n = static_cast<size_t>(num_elements(rows));
  const auto width = static_cast<size_t>(form_->width);
  const std::string& name = sources_.front();
  const OnNull on_null = [](int64_t) {};
  const std::shared_ptr<arrow::Array>& list = source.array;
  const std::shared_ptr<arrow::Array> entries = entries_of(*list);
  const auto fill_in = [&](auto zero) {
    using T = decltype(zero);
    auto whole = std::make_shared<std::vector<T>>(n * width, static_cast<T>(options_.fill));
    T* out = whole->data();
    for (const ElementRange& range : rows) {
      for (int64_t row = range.begin; row < range.end; ++row, out += width) {
        if (list->IsNull(row)) {
          continue;
        }
        const OnBadOffset on_bad = [&](int64_t) {
          fail_offsets(origin, row, name, "has corrupt offsets (decreasing or out of range)");
        };
        std::vector<int64_t> offsets = {0};
        const ElementRanges of_row = open_lists(*list, {{row, row + 1}}, offsets, on_null, on_bad);
        check_length(origin, row, offsets.back());
        check_leaf(source, *entries, of_row, origin, name, [&](int64_t) { return row; });
        copy_values<T>(
            *entries, of_row, options_.hash, static_cast<T>(options_.fill), on_null, on_bad, out);
      }
    }
    ColumnRows rows_out;
    rows_out.data = reinterpret_cast<const char*>(whole->data());
    rows_out.memory = std::move(whole);
    return rows_out;
  };
  return form_->type == ColumnType::kIds   ? fill_in(int64_t{0})
         : form_->type == ColumnType::kF32 ? fill_in(0.0F)
                                           : fill_in(0.0);
}

void Column::check_length(const RowOrigin& origin, int64_t row, int64_t length) const {
  if (length != form_->width) {
    TENON_FAIL(TENON_INVALID,
               "columnar.wrong_length",
               origin.of_row(row),
               "the column ",
               json_string(sources_.front()),
               " has ",
               length,
               " entries, but `length` is ",
               form_->width);
  }
}

ColumnRows Column::read(const std::vector<SourceArray>& sources,
                        const ElementRanges& rows,
                        const RowOrigin& origin) const {
  if (!options_.columns.empty()) {
    return read_side_by_side(sources, rows, origin);
  }
  const std::string& name = sources_.front();
  // The arrays from the outermost list to the values. They map an element back to its row.
  std::vector<std::shared_ptr<arrow::Array>> levels = {sources.front().array};
  const auto row_of = [&](int64_t element) {
    for (size_t level = levels.size() - 1; level > 0; --level) {
      element = list_of_entry(*levels[level - 1], element);
    }
    return element;
  };
  const auto on_null = [&](int64_t element) {
    if (options_.missing == Missing::kError) {
      fail_null(origin, row_of(element), name);
    }
  };
  const auto on_bad = [&](int64_t element) {
    fail_offsets(origin, row_of(element), name, "has corrupt offsets (decreasing or out of range)");
  };

  if (form_->width > 0 && options_.missing == Missing::kFill && levels.front()->null_count() > 0) {
    return read_filled(sources.front(), rows, origin);
  }
  ColumnRows out;
  ElementRanges ranges = rows;
  for (int level = 0; level < form_->list_levels; ++level) {
    std::vector<int64_t>& offsets = level == 0 ? out.offsets : out.inner_offsets;
    offsets.assign(1, 0);
    const std::shared_ptr<arrow::Array> list = levels.back();
    ranges = open_lists(*list, ranges, offsets, on_null, on_bad);
    levels.push_back(entries_of(*list));
  }
  check_leaf(sources.front(), *levels.back(), ranges, origin, name, row_of);
  read_values(levels.back(), ranges, on_null, on_bad, out);
  if (form_->has_weights) {
    read_weights(sources, rows, origin, out);
  }
  if (form_->width > 0) {
    // All lists have one length, given by the shape.
    for (size_t i = 1; i < out.offsets.size(); ++i) {
      const int64_t length = out.offsets[i] - out.offsets[i - 1];
      if (length != form_->width) {
        check_length(origin, row_at(rows, i - 1), length);
      }
    }
    out.offsets.clear();
  }
  return out;
}

void Column::write(const std::vector<RowSlice>& slices,
                   int64_t num_rows,
                   BatchWriter& writer) const {
  if (form_->levels == 0) {
    write_fixed(slices, num_rows, writer);
  } else {
    write_ragged(slices, num_rows, writer);
  }
}

void Column::write_fixed(const std::vector<RowSlice>& slices,
                         int64_t num_rows,
                         BatchWriter& writer) const {
  std::vector<int64_t> shape = {num_rows};
  if (form_->width > 0) {
    shape.push_back(form_->width);
  }
  char* out = writer.add<char>(field_, shape);
  const size_t row_bytes =
      form_->value_size() * static_cast<size_t>(std::max<int64_t>(form_->width, 1));
  for (const RowSlice& slice : slices) {
    const size_t bytes = static_cast<size_t>(slice.end - slice.begin) * row_bytes;
    std::memcpy(out, slice.rows->data + static_cast<size_t>(slice.begin) * row_bytes, bytes);
    out += bytes;
  }
}

void Column::write_ragged(const std::vector<RowSlice>& slices,
                          int64_t num_rows,
                          BatchWriter& writer) const {
  const bool is_nested = form_->levels == 2;
  int64_t num_entries = 0;
  int64_t num_values = 0;
  for (const RowSlice& slice : slices) {
    const SliceRanges ranges = ranges_of(slice, is_nested);
    num_entries += ranges.entries.end - ranges.entries.begin;
    num_values += ranges.values.end - ranges.values.begin;
  }
  uint32_t field = field_;
  char* values = writer.add<char>(field++, {num_values});
  auto* offsets = writer.add<int64_t>(field++, {num_rows + 1});
  int64_t* inner = is_nested ? writer.add<int64_t>(field++, {num_entries + 1}) : nullptr;
  float* weights = form_->has_weights ? writer.add<float>(field, {num_entries}) : nullptr;
  *offsets = 0;
  if (is_nested) {
    *inner = 0;
  }
  for (const RowSlice& slice : slices) {
    const ColumnRows& rows = *slice.rows;
    const auto [entries, of_values] = ranges_of(slice, is_nested);
    offsets = append_offsets(rows.offsets, {slice.begin, slice.end}, offsets);
    if (is_nested) {
      inner = append_offsets(rows.inner_offsets, entries, inner);
    }
    if (weights != nullptr) {
      weights = append(rows.weights, entries, weights, 1);
    }
    values = append(rows.data, of_values, values, form_->value_size());
  }
}

std::string units_of(const std::vector<Column>& columns) {
  std::string units;
  for (const Column& column : columns) {
    const std::string unit = column.resolved_unit();
    units += (units.empty() || unit.empty() ? "" : ", ") + unit;
  }
  return units;
}

void check_units(const std::vector<Column>& columns, const std::string& saved) {
  const std::string units = units_of(columns);
  if (!saved.empty() && saved != units) {
    TENON_FAIL(TENON_INVALID,
               "columnar.other_units",
               "the saved run has read times in other units (expected ",
               saved,
               ", found ",
               units.empty() ? "none" : units,
               "); set `unit` of the columns to those of the saved run to resume");
  }
}

}  // namespace tenon
