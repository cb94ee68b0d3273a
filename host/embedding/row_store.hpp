// SPDX-License-Identifier: Apache-2.0
//
// The rows of a table: the layout of their fields, their memory, and which rows are in use.
// table.hpp decides which id a row belongs to, and when rows are added or removed.
//
// A row has a value, an optional fp32 master, and slots, side by side. Another 8 bytes are its
// notes: the occurrences of its id, and the step of its last update. The notes are in the row or,
// if the rest of the row fills whole cache lines, in a separate array. Many blocks of rows share
// one range of address space, so that they fit huge pages without waste.
//
// Invariant: blocks never move; the row that was freed last is reused first.
// Threads: several threads may call const functions while no other call runs.

#pragma once

#include <tenon/draft/sparse_optimizer.h>

#include "host/embedding/memory_region.hpp"
#include "host/embedding/table_spec.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

// Notes of a row. Both numbers saturate at UINT32_MAX.
struct RowNotes {
  uint32_t count;
  uint32_t last_step;
};

class RowStore {
 public:
  // Errors  table.bad_spec: invalid dim, dtype, slot or initial value
  explicit RowStore(const TableSpec& spec);

  // Not copyable, because copies would share blocks.
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  int64_t num_rows() const { return num_rows_; }
  // Memory of all rows, now and after one more row, in bytes.
  int64_t num_bytes() const { return num_bytes_; }
  int64_t num_bytes_after_add() const;
  // Bytes of one row with its notes.
  int64_t row_bytes() const;
  bool is_full() const { return first_free_ == kNone && end_ > INT32_MAX; }

  // Adds a row for `id`, with the initial values of the id and of slots.
  //
  // Errors  table.full: the system has no more memory
  int64_t add(uint64_t seed, int64_t id, RowNotes notes);
  // Resets the row to its initial values.
  void renew(int64_t row, uint64_t seed, int64_t id, RowNotes notes);
  void free(int64_t row);

  const tenon_row_layout& layout() const { return layout_; }
  RowNotes& notes(int64_t row) const {
    void* at = notes_offset_ >= 0 ? tenon_row_field(&layout_, row, notes_offset_)
                                  : notes_region_.data() + row * int64_t{sizeof(RowNotes)};
    return *static_cast<RowNotes*>(at);
  }
  // Always inline: otherwise the compiler assumes that it has no effect, and drops the call.
  [[gnu::always_inline]] void prefetch_notes(int64_t row) const { __builtin_prefetch(&notes(row)); }

  // Reads the values of rows in fp32. Elements of a negative row are `missing`.
  void read(std::span<const int64_t> rows, float missing, float* out, int64_t stride) const;

  // Reads the initial value of the row of `id`, as read() would after add().
  void read_initial(uint64_t seed, int64_t id, std::span<float> out) const;

  // Sets the value, and the master if rows have one.
  void write(int64_t row, const float* values);

  // A field of each row. fields() has the value, the master if any, and the slots, in this order.
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

  // Parts of the constructor, in call order.
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
  std::vector<std::byte> fresh_;  // initial row, except value and master
  bool has_master_;
  int32_t notes_offset_ = -1;  // in the row; -1: notes are in notes_region_
  size_t block_bytes_ = 0;
  int64_t blocks_in_extent_ = 0;
  std::vector<MemoryRegion> extents_;
  std::vector<void*> blocks_;
  MemoryRegion notes_region_;
  int64_t end_ = 0;    // this row and all after it were never used
  int64_t ready_ = 0;  // all rows before this one have memory
  int64_t num_rows_ = 0;
  int64_t num_bytes_ = 0;
  uint32_t first_free_ = kNone;  // list of freed rows, linked by RowNotes::count
};

}  // namespace tenon
