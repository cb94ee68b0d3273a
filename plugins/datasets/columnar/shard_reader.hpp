// SPDX-License-Identifier: Apache-2.0
//
// Reads the rows of one shard, batch by batch, in an order determined by a seed. Its position is
// exact: reading resumes at the very next row. window_walk.hpp decides which rows a shard has.
//
// Without shuffling, the shard's spans are read one after another, in pieces. With shuffling, the
// spans are permuted, `shuffle_groups` of them at a time are read whole, and their rows are
// permuted.
// Invariants: the order depends on spans, seed and options only, not on when or in which sizes
// batches are requested. A position is a few numbers, however much was read.
// Threads: one at a time.
#pragma once

#include <tenon/cpp/dataset.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "column.hpp"
#include "row_filter.hpp"
#include "source_file.hpp"

namespace tenon {

// Rows [first, first + count) of a row group.
struct RowSpan {
  DataFile file;
  int group = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// Combines several numbers into one, the same on every machine.
uint64_t mix_numbers(std::initializer_list<uint64_t> numbers);

// Settings shared by all shards of a dataset.
struct ShardRules {
  const std::vector<Column>* columns = nullptr;
  const RowFilter* filter = nullptr;
  std::function<std::shared_ptr<const SourceFile>(const DataFile&)> open;  // from any thread
  int64_t batch_rows = 0;                                                  // rows decoded at a time
  int64_t shuffle_groups = 0;  // spans shuffled together; 0: no shuffling
  const tenon_random_api* random = nullptr;
  uint64_t seed = 0;
};

class ShardReader {
 public:
  // `stream` distinguishes its order from those of other shards, windows and epochs. `rules` is
  // borrowed.
  ShardReader(const ShardRules& rules, std::vector<RowSpan> spans, uint64_t stream);

  // Seeks to a position returned by next(), or to the start.
  //
  // Errors   columnar.bad_position; columnar.changed if the shard's rows have changed;
  //          columnar.other_units
  void seek(const std::string* position);

  // Reads all rows from the start and drops them, to find errors.
  void read_all();

  // Reads up to `max_rows` and returns the position after them. True at the shard's end.
  bool next(int64_t max_rows, BatchWriter& writer);

 private:
  // Rows read together, as columns.
  struct Piece {
    std::vector<ColumnRows> columns;
    int64_t num_rows = 0;
    int64_t used = 0;           // rows already returned; without shuffling
    uint64_t span = 0;          // without shuffling: the span of the rows
    std::vector<int64_t> rows;  // row numbers in the span, if some were skipped
    int64_t first_row = 0;      // first row number in the span, if none was skipped
    int64_t row_of(int64_t i) const {
      return rows.empty() ? first_row + i : rows[static_cast<size_t>(i)];
    }
  };

  struct OpenSpan {
    uint64_t number = 0;
    std::shared_ptr<const SourceFile> file;
    std::unique_ptr<GroupReader> reader;
  };

  bool read_piece();
  OpenSpan open_span(uint64_t number, int64_t from) const;
  void begin_span(uint64_t number, int64_t from, std::optional<uint64_t> next);
  Piece make_piece(const std::shared_ptr<arrow::RecordBatch>& batch, const RowOrigin& origin) const;
  bool load_buffer(uint64_t number);
  bool next_in_order(int64_t max_rows, BatchWriter& writer);
  bool next_shuffled(int64_t max_rows, BatchWriter& writer);
  void write(const std::vector<std::pair<const Piece*, ElementRange>>& parts,
             int64_t num_rows,
             BatchWriter& writer) const;
  std::string position(uint64_t number, int64_t row) const;
  uint64_t num_buffers() const;

  const ShardRules& rules_;
  std::vector<RowSpan> spans_;
  std::vector<std::string> sources_;
  uint64_t stream_;
  uint64_t fingerprint_;  // hash of the spans
  std::string units_;     // "ts in ms": units of times
  OpenSpan reading_;
  OpenSpan ahead_;  // prefetched while the current span is decoded

  // Without shuffling: the current span, its reader, and rows read ahead.
  uint64_t span_ = 0;
  int64_t span_row_ = 0;  // next row of the span that the reader returns
  std::deque<Piece> pieces_;

  // With shuffling: the buffer and the number of its rows already returned.
  uint64_t buffer_ = 0;
  bool has_buffer_ = false;
  std::vector<Piece> buffer_pieces_;
  std::vector<int64_t> first_of_piece_;  // ends with the total number of rows
  int64_t buffer_row_ = 0;
};

}  // namespace tenon
