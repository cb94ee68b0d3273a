// SPDX-License-Identifier: Apache-2.0
//
// The rows of a table: where their fields lie, memory for them, which are in use. Not which id a
// row belongs to, nor why it comes or goes: table.hpp.
//
// A row is its value, an fp32 master where there is one, and slots, side by side; then how often
// its id was seen and the step that updated it last, 8 bytes: in the row, or, where the rest of the
// row fills whole lines of the cache, in an array of their own. Rows lie in blocks, many of which
// share one piece of address space, so that huge pages hold them without loss.
//
// Invariant: a block never moves; a row that was freed is the next to be used.
// Threads: const functions of several at once while nothing else is under way.

#pragma once

#include <tenon/draft/sparse_optimizer.h>

#include "host/embedding/memory_region.hpp"
#include "host/embedding/table_spec.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

// What is noted of a row. Counts stay at the largest number they can hold.
struct RowNotes {
  uint32_t count;
  uint32_t last_step;
};

class RowStore {
 public:
  // Errors  table.bad_spec: sizes, dtypes or slots that are none
  explicit RowStore(const TableSpec& spec);

  // Copies would have blocks in common.
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  int64_t num_rows() const { return num_rows_; }
  // All memory of rows, and that after one more.
  int64_t num_bytes() const { return num_bytes_; }
  int64_t num_bytes_after_add() const;
  // Of one row with its notes.
  int64_t row_bytes() const;
  bool is_full() const { return first_free_ == kNone && end_ > INT32_MAX; }

  // A row for `id`: first values, fresh slots.
  //
  // Errors  table.full: the system has no more memory
  int64_t add(uint64_t seed, int64_t id, RowNotes notes);
  // The row begins anew.
  void renew(int64_t row, uint64_t seed, int64_t id, RowNotes notes);
  void free(int64_t row);

  const tenon_row_layout& layout() const { return layout_; }
  RowNotes& notes(int64_t row) const {
    void* at = notes_offset_ >= 0 ? tenon_row_field(&layout_, row, notes_offset_)
                                  : notes_region_.data() + row * int64_t{sizeof(RowNotes)};
    return *static_cast<RowNotes*>(at);
  }
  // In line, or the compiler takes it for a function that does nothing and leaves out the call.
  [[gnu::always_inline]] void prefetch_notes(int64_t row) const { __builtin_prefetch(&notes(row)); }

  // The values of rows in fp32, `missing` where a row is below zero.
  void read(std::span<const int64_t> rows, float missing, float* out, int64_t stride) const;

  // Sets the value, and the master where there is one.
  void write(int64_t row, const float* values);

  // Where a field lies, its bytes, and how many fields there are: value, master if any, slots.
  struct Field {
    int32_t offset;
    size_t bytes;
    uint32_t dtype;
    bool is_scalar;
  };
  std::span<const Field> fields() const { return fields_; }
  std::byte* field(int64_t row, const Field& field) const {
    return static_cast<std::byte*>(tenon_row_field(&layout_, row, field.offset));
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Parts of the constructor, in their order.
  void lay_out_fields(const TableSpec& spec);
  void add_field(const TableSpec& spec, uint32_t dtype, bool is_scalar);
  void fill_fresh(const TableSpec& spec);
  void set_layout(const TableSpec& spec);

  void add_block();
  void take_memory_for(int64_t row);

  RowInit init_;
  tenon_row_layout layout_{};
  std::vector<Field> fields_;
  std::vector<int32_t> slot_offsets_;
  size_t row_size_ = 0;  // bytes of the fields so far
  size_t row_align_ = 1;
  std::vector<std::byte> fresh_;  // a row but for its value and master
  bool has_master_;
  int32_t notes_offset_ = -1;  // in the row; -1: in notes_region_
  size_t block_bytes_ = 0;
  int64_t blocks_in_extent_ = 0;
  std::vector<MemoryRegion> extents_;
  std::vector<void*> blocks_;
  MemoryRegion notes_region_;
  int64_t end_ = 0;    // rows from here on were never used
  int64_t ready_ = 0;  // rows below it have memory
  int64_t num_rows_ = 0;
  int64_t num_bytes_ = 0;
  uint32_t first_free_ = kNone;  // and on through the counts of freed rows
};

}  // namespace tenon
