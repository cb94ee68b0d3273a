// SPDX-License-Identifier: Apache-2.0

#include "host/embedding/row_store.hpp"

#include <tenon/model.h>

#include "host/embedding/row_values.hpp"
#include "host/error/error.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/initializer.hpp"
#include "host/text/formatted.hpp"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

namespace tenon {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kBlockBytes = size_t{512} << 10;  // at most, or 16 rows if that is more
constexpr size_t kExtentBytes = size_t{1} << 30;   // address space
constexpr size_t kNotesReserve = size_t{256} << 20;
constexpr size_t kLinesAhead = 24;  // cache lines that a core can wait for at once
constexpr size_t kMostRowBytes = size_t{1} << 24;

[[noreturn]] void bad_spec(const TableSpec& spec, const std::string& what) {
  throw Error("table.bad_spec", "table '" + spec.name + "': " + what);
}

bool is_value_dtype(uint32_t dtype) {
  return dtype == TENON_F32 || dtype == TENON_BF16 || dtype == TENON_F16;
}

template <class T>
void store_number(T number, size_t n, std::byte* to) {
  for (size_t i = 0; i < n; ++i) {
    std::memcpy(to + i * sizeof(T), &number, sizeof(T));
  }
}

// Returns false for a dtype that slots cannot have.
bool fill_number(uint32_t dtype, double number, size_t n, std::byte* to) {
  switch (dtype) {
    case TENON_F32:
      store_number(static_cast<float>(number), n, to);
      return true;
    case TENON_F64:
      store_number(number, n, to);
      return true;
    case TENON_BF16:
      store_number(c10::BFloat16(static_cast<float>(number)), n, to);
      return true;
    case TENON_F16:
      store_number(c10::Half(static_cast<float>(number)), n, to);
      return true;
    case TENON_I32:
      store_number(static_cast<int32_t>(number), n, to);
      return true;
    case TENON_I64:
      store_number(static_cast<int64_t>(number), n, to);
      return true;
    default:
      return false;
  }
}

template <class T>
void narrow(const float* from, size_t n, std::byte* to) {
  for (size_t k = 0; k < n; ++k) {
    const T x(from[k]);
    std::memcpy(to + k * sizeof(T), &x, sizeof(T));
  }
}

template <class T>
void widen(const void* from, size_t n, float* to) {
  const T* values = static_cast<const T*>(from);
  for (size_t k = 0; k < n; ++k) {
    to[k] = static_cast<float>(values[k]);
  }
}

void widen_values(uint32_t dtype, const void* from, size_t n, float* to) {
  if (dtype == TENON_F32) {
    std::memcpy(to, from, n * sizeof(float));
  } else if (dtype == TENON_BF16) {
    widen<c10::BFloat16>(from, n, to);
  } else {
    widen<c10::Half>(from, n, to);
  }
}

void check_spec(const TableSpec& spec) {
  if (spec.dim == 0) {
    bad_spec(spec, "rows have no element; give the table a dim of 1 or more");
  }
  if (!is_value_dtype(spec.value_dtype)) {
    bad_spec(spec,
             "values cannot be " + dtype_name(spec.value_dtype) + "; choose fp32, bf16 or fp16");
  }
  if (spec.has_master && spec.value_dtype == TENON_F32) {
    bad_spec(spec, "fp32 values need no fp32 master beside them; choose one of the two");
  }
  if (spec.init.kind == TENON_INIT_MODULE ||
      !is_legal_init(spec.init.kind, spec.init.a, spec.init.b)) {
    bad_spec(spec,
             "its rows cannot start as initializer " + std::to_string(spec.init.kind) + " with " +
                 std::to_string(spec.init.a) + " and " + std::to_string(spec.init.b) +
                 " says; choose zeros, ones, constant, normal, uniform (a <= b) or trunc_normal, "
                 "with a deviation that is not negative");
  }
}

}  // namespace

RowStore::RowStore(const TableSpec& spec)
    : init_(spec.init), has_master_(spec.has_master), notes_region_(kNotesReserve) {
  check_spec(spec);
  lay_out_fields(spec);
  fill_fresh(spec);
  set_layout(spec);
}

void RowStore::lay_out_fields(const TableSpec& spec) {
  add_field(spec, spec.value_dtype, false);
  if (spec.has_master) {
    add_field(spec, TENON_F32, false);
  }
  for (const RowSlot& slot : spec.slots) {
    std::array<std::byte, 8> probe;
    if (!is_dtype(slot.dtype) || !fill_number(slot.dtype, slot.init, 1, probe.data())) {
      bad_spec(spec,
               "slot '" + slot.name + "' cannot be " + dtype_name(slot.dtype) +
                   "; its optimizer may declare f32, f64, bf16, f16, i32 or i64");
    }
    add_field(spec, slot.dtype, slot.is_scalar);
    slot_offsets_.push_back(fields_.back().offset);
  }
  if (round_up(row_size_, row_align_) % kLine != 0) {
    row_size_ = round_up(row_size_, sizeof(uint32_t));
    row_align_ = std::max(row_align_, sizeof(uint32_t));
    notes_offset_ = static_cast<int32_t>(row_size_);
    row_size_ += sizeof(RowNotes);
  }
}

void RowStore::add_field(const TableSpec& spec, uint32_t dtype, bool is_scalar) {
  const size_t size = dtype_size(dtype);
  const size_t field_bytes = is_scalar ? size : size * spec.dim;
  row_size_ = round_up(row_size_, size);
  row_align_ = std::max(row_align_, size);
  if (row_size_ + field_bytes > kMostRowBytes) {
    bad_spec(spec,
             formatted("a row of {} elements takes more than {} bytes; choose a smaller dim",
                       spec.dim,
                       kMostRowBytes));
  }
  fields_.push_back({static_cast<int32_t>(row_size_), field_bytes, dtype, is_scalar});
  row_size_ += field_bytes;
}

void RowStore::fill_fresh(const TableSpec& spec) {
  fresh_.resize(round_up(row_size_, row_align_));
  for (size_t i = 0; i < spec.slots.size(); ++i) {
    const Field& field = fields_[fields_.size() - spec.slots.size() + i];
    fill_number(field.dtype,
                spec.slots[i].init,
                field.bytes / dtype_size(field.dtype),
                fresh_.data() + field.offset);
  }
}

void RowStore::set_layout(const TableSpec& spec) {
  const size_t stride = fresh_.size();
  const size_t rows_in_block = std::bit_floor(std::max<size_t>(kBlockBytes / stride, 16));
  block_bytes_ = rows_in_block * stride;
  blocks_in_extent_ = static_cast<int64_t>(std::max<size_t>(1, kExtentBytes / block_bytes_));
  layout_.struct_size = sizeof layout_;
  layout_.shift = static_cast<uint32_t>(std::countr_zero(rows_in_block));
  layout_.dim = spec.dim;
  layout_.stride = stride;
  layout_.value_dtype = spec.value_dtype;
  layout_.value_offset = 0;
  layout_.master_offset = spec.has_master ? fields_[1].offset : -1;
  layout_.num_slots = static_cast<uint32_t>(spec.slots.size());
  layout_.slot_offsets = slot_offsets_.data();
}

int64_t RowStore::row_bytes() const {
  return static_cast<int64_t>(layout_.stride + (notes_offset_ < 0 ? sizeof(RowNotes) : 0));
}

int64_t RowStore::num_bytes_after_add() const {
  if (first_free_ != kNone || end_ < ready_) {
    return num_bytes_;
  }
  const int64_t in_block = end_ & ((int64_t{1} << layout_.shift) - 1);
  const int64_t block = end_ >> layout_.shift;
  const size_t in_extent = static_cast<size_t>(block % blocks_in_extent_) * block_bytes_ +
                           static_cast<size_t>(in_block + 1) * layout_.stride;
  const bool is_new_extent = block / blocks_in_extent_ >= static_cast<int64_t>(extents_.size());
  const size_t had = is_new_extent ? 0 : extents_.back().committed();
  int64_t bytes = num_bytes_;
  if (in_extent > had) {
    bytes += static_cast<int64_t>(MemoryRegion::rounded(in_extent) - had);
  }
  if (notes_offset_ < 0) {
    const auto notes = static_cast<size_t>(end_ + 1) * sizeof(RowNotes);
    if (notes > notes_region_.committed()) {
      bytes += static_cast<int64_t>(MemoryRegion::rounded(notes) - notes_region_.committed());
    }
  }
  return bytes;
}

void RowStore::add_block() {
  const auto block = static_cast<int64_t>(blocks_.size());
  if (block % blocks_in_extent_ == 0) {
    extents_.emplace_back(static_cast<size_t>(blocks_in_extent_) * block_bytes_);
  }
  blocks_.push_back(extents_.back().data() +
                    static_cast<size_t>(block % blocks_in_extent_) * block_bytes_);
  layout_.blocks = blocks_.data();
}

// Commits memory for `row`, the first row without memory.
void RowStore::take_memory_for(int64_t row) {
  const int64_t block = row >> layout_.shift;
  const int64_t rows_in_block = int64_t{1} << layout_.shift;
  if (block == static_cast<int64_t>(blocks_.size())) {
    add_block();
  }
  MemoryRegion& extent = extents_.back();
  const size_t block_begin = static_cast<size_t>(block % blocks_in_extent_) * block_bytes_;
  const size_t wanted =
      block_begin + static_cast<size_t>((row & (rows_in_block - 1)) + 1) * layout_.stride;
  const size_t had = extent.committed();
  extent.commit(wanted);
  num_bytes_ += static_cast<int64_t>(extent.committed() - had);
  const auto fit = static_cast<int64_t>((extent.committed() - block_begin) / layout_.stride);
  int64_t ready = (block << layout_.shift) + std::min(fit, rows_in_block);
  if (notes_offset_ < 0) {
    const size_t had_notes = notes_region_.committed();
    notes_region_.commit(static_cast<size_t>(row + 1) * sizeof(RowNotes));
    num_bytes_ += static_cast<int64_t>(notes_region_.committed() - had_notes);
    ready = std::min(ready, static_cast<int64_t>(notes_region_.committed() / sizeof(RowNotes)));
  }
  ready_ = ready;
}

int64_t RowStore::add(uint64_t seed, int64_t id, RowNotes row_notes) {
  int64_t row = 0;
  if (first_free_ != kNone) {
    row = first_free_;
    first_free_ = notes(row).count;
  } else {
    if (end_ == ready_) {
      take_memory_for(end_);
    }
    row = end_++;
  }
  ++num_rows_;
  renew(row, seed, id, row_notes);
  return row;
}

void RowStore::renew(int64_t row, uint64_t seed, int64_t id, RowNotes row_notes) {
  auto* begin = static_cast<std::byte*>(tenon_row_field(&layout_, row, 0));
  const size_t value_bytes = fields_[0].bytes;
  std::memcpy(begin + value_bytes, fresh_.data() + value_bytes, layout_.stride - value_bytes);
  const size_t dim = layout_.dim;
  if (layout_.value_dtype == TENON_F32) {
    fill_row_values(init_, seed, id, {reinterpret_cast<float*>(begin), dim});
  } else {
    constexpr size_t kPiece = 256;
    std::array<float, kPiece> some;
    std::vector<float> many(dim > kPiece ? dim : 0);
    float* values = dim > kPiece ? many.data() : some.data();
    fill_row_values(init_, seed, id, {values, dim});
    write(row, values);
  }
  notes(row) = row_notes;
}

void RowStore::write(int64_t row, const float* values) {
  auto* begin = static_cast<std::byte*>(tenon_row_field(&layout_, row, 0));
  const size_t dim = layout_.dim;
  if (layout_.value_dtype == TENON_F32) {
    std::memcpy(begin, values, dim * sizeof(float));
  } else if (layout_.value_dtype == TENON_BF16) {
    narrow<c10::BFloat16>(values, dim, begin);
  } else {
    narrow<c10::Half>(values, dim, begin);
  }
  if (has_master_) {
    std::memcpy(begin + layout_.master_offset, values, dim * sizeof(float));
  }
}

void RowStore::free(int64_t row) {
  notes(row) = {first_free_, 0};
  first_free_ = static_cast<uint32_t>(row);
  --num_rows_;
}

void RowStore::read_initial(uint64_t seed, int64_t id, std::span<float> out) const {
  fill_row_values(init_, seed, id, out);
  for (float& element : out) {
    if (layout_.value_dtype == TENON_BF16) {
      element = static_cast<float>(c10::BFloat16(element));
    } else if (layout_.value_dtype == TENON_F16) {
      element = static_cast<float>(c10::Half(element));
    }
  }
}

void RowStore::read(std::span<const int64_t> rows,
                    float missing,
                    float* out,
                    int64_t stride) const {
  const size_t n = rows.size();
  const size_t dim = layout_.dim;
  const size_t lines = fields_[0].bytes / kLine + 1;
  const size_t ahead = std::max<size_t>(2, kLinesAhead / lines);
  const auto prefetch = [&](int64_t row) {
    if (row >= 0) {
      const auto* at = static_cast<const char*>(tenon_row_field(&layout_, row, 0));
      const char* end = at + fields_[0].bytes;
      // The hardware prefetches the rest of a long row once its first lines are being read.
      for (size_t line = 0; line < std::min<size_t>(lines, 8) && at < end; ++line, at += kLine) {
        __builtin_prefetch(at);
      }
    }
  };
  for (size_t i = 0; i < std::min(ahead, n); ++i) {
    prefetch(rows[i]);
  }
  for (size_t i = 0; i < n; ++i) {
    if (i + ahead < n) {
      prefetch(rows[i + ahead]);
    }
    float* to = out + static_cast<int64_t>(i) * stride;
    if (rows[i] < 0) {
      std::fill_n(to, dim, missing);
    } else {
      widen_values(layout_.value_dtype, tenon_row_field(&layout_, rows[i], 0), dim, to);
    }
  }
}

}  // namespace tenon
