// SPDX-License-Identifier: Apache-2.0
//
// The rows of one shard, batch by batch, in an order that a seed fixes; and the exact position,
// from which it goes on with the very next row. Which rows a shard has is window_walk.hpp's.
//
// Without shuffling the shard's spans are read one after the other, in pieces. With it, the spans
// are put into an order of their own, so many at a time are read whole, and their rows are put into
// an order. Invariants: the order depends on spans, seed and options alone, not on when batches are
// asked for or how large they are; a position holds a few numbers, whatever was read. Threads: one
// at a time.
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

// One number of several, the same everywhere.
uint64_t mix_numbers(std::initializer_list<uint64_t> numbers);

// What all shards of a dataset share.
struct ShardRules {
  const std::vector<Column>* columns = nullptr;
  const RowFilter* filter = nullptr;
  std::function<std::shared_ptr<const SourceFile>(const DataFile&)> open;  // of any thread
  int64_t batch_rows = 0;      // rows that are read at a time
  int64_t shuffle_groups = 0;  // spans whose rows are mixed; 0: no shuffling
  const tenon_random_api* random = nullptr;
  uint64_t seed = 0;
};

class ShardReader {
 public:
  // `stream` tells its order from that of other shards, windows and epochs. `rules` is borrowed.
  ShardReader(const ShardRules& rules, std::vector<RowSpan> spans, uint64_t stream);

  // Goes to a position that next() gave, or to the start.
  //
  // Errors   columnar.bad_position; columnar.changed if the shard has other rows now
  void seek(const std::string* position);

  // Reads up to `max_rows`, and leaves the position after them. True at the shard's end.
  bool next(int64_t max_rows, BatchWriter& writer);

 private:
  // Rows that were read together, as columns.
  struct Piece {
    std::vector<ColumnRows> columns;
    int64_t num_rows = 0;
    int64_t used = 0;           // handed out already; without shuffling
    uint64_t span = 0;          // without shuffling: where they come from
    std::vector<int64_t> rows;  // of the span, each; without shuffling, where some were left out
    int64_t first_row = 0;      // of the span, where none was
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
  Piece make_piece(const std::shared_ptr<arrow::RecordBatch>& batch, const RowPlace& place) const;
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
  uint64_t fingerprint_;  // of the spans
  OpenSpan reading_;
  OpenSpan ahead_;  // whose bytes are on their way while the other is decoded

  // Without shuffling: the span that is read, what of it is still to come, and rows read ahead.
  uint64_t span_ = 0;
  int64_t span_row_ = 0;  // of the span: the next that the reader gives
  std::deque<Piece> pieces_;

  // With it: the buffer, and how many of its rows have been handed out.
  uint64_t buffer_ = 0;
  bool has_buffer_ = false;
  std::vector<Piece> buffer_pieces_;
  std::vector<int64_t> first_of_piece_;  // and the number of all rows at the end
  int64_t buffer_row_ = 0;
};

}  // namespace tenon
