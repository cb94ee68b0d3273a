// SPDX-License-Identifier: Apache-2.0
#include "shard_reader.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace tenon {
namespace {

constexpr uint64_t kPositionVersion = 1;
constexpr size_t kPositionNumbers =
    4;  // version, fingerprint, index of the span or buffer, row in it

// FNV-1a: the same values on every machine.
class Fingerprint {
 public:
  void add(const std::string& text) {
    for (const char c : text) {
      add_byte(static_cast<unsigned char>(c));
    }
    add_byte(0);
  }
  void add(uint64_t number) {
    for (int i = 0; i < 8; ++i) {
      add_byte(static_cast<unsigned char>(number >> (8 * i)));
    }
  }
  uint64_t value() const { return hash_; }

 private:
  void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * 1099511628211ULL; }
  uint64_t hash_ = 14695981039346656037ULL;
};

}  // namespace

uint64_t mix_numbers(std::initializer_list<uint64_t> numbers) {
  Fingerprint fingerprint;
  for (const uint64_t number : numbers) {
    fingerprint.add(number);
  }
  return fingerprint.value();
}

ShardReader::ShardReader(const ShardRules& rules, std::vector<RowSpan> spans, uint64_t stream)
    : rules_(rules), spans_(std::move(spans)), stream_(stream) {
  std::set<std::string> sources;
  for (const Column& column : *rules_.columns) {
    sources.insert(column.sources().begin(), column.sources().end());
  }
  for (const std::string& column : rules_.filter->columns()) {
    sources.insert(column);
  }
  sources_.assign(sources.begin(), sources.end());
  units_ = units_of(*rules_.columns);
  // Names without folders, so that files may be moved before the run resumes.
  Fingerprint fingerprint;
  for (const RowSpan& span : spans_) {
    fingerprint.add(span.file.name.substr(span.file.name.rfind('/') + 1));
    fingerprint.add(static_cast<uint64_t>(span.group));
    fingerprint.add(static_cast<uint64_t>(span.first));
    fingerprint.add(static_cast<uint64_t>(span.count));
  }
  fingerprint.add(static_cast<uint64_t>(rules_.shuffle_groups));
  fingerprint_ = fingerprint.value();
}

uint64_t ShardReader::num_buffers() const {
  const auto size = static_cast<uint64_t>(std::max<int64_t>(rules_.shuffle_groups, 1));
  return (spans_.size() + size - 1) / size;
}

std::string ShardReader::position(uint64_t number, int64_t row) const {
  const uint64_t numbers[kPositionNumbers] = {
      kPositionVersion, fingerprint_, number, static_cast<uint64_t>(row)};
  return std::string(reinterpret_cast<const char*>(numbers), sizeof(numbers)) + units_;
}

void ShardReader::seek(const std::string* position) {
  span_ = 0;
  span_row_ = 0;
  reading_ = {};
  ahead_ = {};
  pieces_.clear();
  buffer_ = 0;
  has_buffer_ = false;
  buffer_pieces_.clear();
  buffer_row_ = 0;
  if (position == nullptr) {
    return;
  }
  uint64_t numbers[kPositionNumbers] = {};
  if (position->size() < sizeof(numbers)) {
    TENON_FAIL(TENON_INVALID,
               "columnar.bad_position",
               "the saved position has ",
               position->size(),
               " bytes (expected at least ",
               sizeof(numbers),
               ")");
  }
  std::memcpy(numbers, position->data(), sizeof(numbers));
  if (numbers[0] != kPositionVersion) {
    TENON_FAIL(TENON_INVALID,
               "columnar.bad_position",
               "the saved position has version ",
               numbers[0],
               " (expected ",
               kPositionVersion,
               ")");
  }
  if (numbers[1] != fingerprint_) {
    TENON_FAIL(TENON_INVALID,
               "columnar.changed",
               "the files, row groups or options of this shard differ from those of the saved "
               "position; restore the original data to resume");
  }
  check_units(*rules_.columns, position->substr(sizeof(numbers)));
  if (rules_.shuffle_groups > 0) {
    buffer_ = numbers[2];
    buffer_row_ = static_cast<int64_t>(numbers[3]);
  } else {
    span_ = numbers[2];
    span_row_ = static_cast<int64_t>(numbers[3]);
  }
}

void ShardReader::read_all() {
  seek(nullptr);
  while (read_piece()) {
    pieces_.clear();
  }
}

ShardReader::OpenSpan ShardReader::open_span(uint64_t number, int64_t from) const {
  const RowSpan& span = spans_[number];
  OpenSpan open;
  open.number = number;
  open.file = rules_.open(span.file);
  open.reader = open.file->read(span.group, sources_, span.first + from, rules_.batch_rows);
  return open;
}

// Makes it the current span and starts prefetching `next`, which is read after it.
void ShardReader::begin_span(uint64_t number, int64_t from, std::optional<uint64_t> next) {
  const bool is_fetched = from == 0 && ahead_.reader != nullptr && ahead_.number == number;
  reading_ = is_fetched ? std::move(ahead_) : open_span(number, from);
  ahead_ = {};
  if (next && spans_[*next].count > 0 && reading_.file->fetches_ahead()) {
    try {
      ahead_ = open_span(*next, 0);
    } catch (const Error&) {
      // The span is reopened when its rows are due; earlier rows come first.
    }
  }
}

ShardReader::Piece ShardReader::make_piece(const std::shared_ptr<arrow::RecordBatch>& batch,
                                           const RowOrigin& origin) const {
  const int64_t n = batch->num_rows();
  std::vector<char> keep;
  const auto keep_all = [&] {
    if (keep.empty()) {
      keep.assign(static_cast<size_t>(n), 1);
    }
  };
  if (!rules_.filter->is_empty()) {
    keep_all();
    rules_.filter->apply(*batch, origin, keep);
    if (std::count(keep.begin(), keep.end(), 1) == 0) {
      return {};
    }
  }
  std::vector<std::vector<SourceArray>> sources;
  for (const Column& column : *rules_.columns) {
    sources.push_back(column.arrays_of(*batch));
    if (column.skips_rows()) {
      keep_all();
      for (int64_t row = 0; row < n; ++row) {
        char& kept = keep[static_cast<size_t>(row)];
        kept = kept != 0 && !column.skips(sources.back(), row) ? 1 : 0;
      }
    }
  }
  Piece piece;
  ElementRanges ranges;
  piece.num_rows = n;
  if (keep.empty() || std::count(keep.begin(), keep.end(), 1) == n) {
    ranges.push_back({0, n});
  } else {
    for (int64_t row = 0; row < n; ++row) {
      if (keep[static_cast<size_t>(row)] != 0) {
        piece.rows.push_back(row);
        if (!ranges.empty() && ranges.back().end == row) {
          ++ranges.back().end;
        } else {
          ranges.push_back({row, row + 1});
        }
      }
    }
    piece.num_rows = static_cast<int64_t>(piece.rows.size());
  }
  if (piece.num_rows > 0) {
    for (size_t c = 0; c < sources.size(); ++c) {
      piece.columns.push_back((*rules_.columns)[c].read(sources[c], ranges, origin));
    }
  }
  return piece;
}

// Reads the next piece of the shard; false at its end. A piece may have no rows.
bool ShardReader::read_piece() {
  while (span_ < spans_.size()) {
    const RowSpan& span = spans_[span_];
    if (reading_.reader == nullptr && span_row_ < span.count) {
      begin_span(
          span_, span_row_, span_ + 1 < spans_.size() ? std::optional(span_ + 1) : std::nullopt);
    }
    RowOrigin origin;
    std::shared_ptr<arrow::RecordBatch> batch =
        span_row_ < span.count ? reading_.reader->next(origin) : nullptr;
    if (batch == nullptr) {
      if (span_row_ < span.count) {
        TENON_FAIL(TENON_IO,
                   "columnar.changed",
                   span.file.name,
                   ": row group ",
                   span.group,
                   " ends after row ",
                   span.first + span_row_,
                   " (expected row ",
                   span.first + span.count,
                   ")");
      }
      reading_ = {};
      ++span_;
      span_row_ = 0;
      continue;
    }
    if (batch->num_rows() > span.count - span_row_) {
      batch = batch->Slice(0, span.count - span_row_);
    }
    Piece piece = make_piece(batch, origin);
    piece.span = span_;
    piece.first_row = span_row_;
    for (int64_t& row : piece.rows) {
      row += span_row_;
    }
    span_row_ += batch->num_rows();
    if (piece.num_rows > 0) {
      pieces_.push_back(std::move(piece));
    }
    return true;
  }
  return false;
}

void ShardReader::write(const std::vector<std::pair<const Piece*, ElementRange>>& parts,
                        int64_t num_rows,
                        BatchWriter& writer) const {
  if (num_rows > 0) {
    std::vector<RowSlice> slices(parts.size());
    for (size_t c = 0; c < rules_.columns->size(); ++c) {
      for (size_t i = 0; i < parts.size(); ++i) {
        slices[i] = {&parts[i].first->columns[c], parts[i].second.begin, parts[i].second.end};
      }
      (*rules_.columns)[c].write(slices, num_rows, writer);
    }
  }
  writer.set_counts(num_rows, 0);
}

bool ShardReader::next_in_order(int64_t max_rows, BatchWriter& writer) {
  int64_t ready = 0;
  for (const Piece& piece : pieces_) {
    ready += piece.num_rows - piece.used;
  }
  bool has_more = true;
  while (ready < max_rows && has_more) {
    const size_t before = pieces_.size();
    has_more = read_piece();
    ready += pieces_.size() > before ? pieces_.back().num_rows : 0;
  }
  const int64_t num_rows = std::min(ready, max_rows);
  std::vector<std::pair<const Piece*, ElementRange>> parts;
  int64_t left = num_rows;
  for (Piece& piece : pieces_) {
    const int64_t take = std::min(left, piece.num_rows - piece.used);
    if (take > 0) {
      parts.emplace_back(&piece, ElementRange{piece.used, piece.used + take});
      piece.used += take;
      left -= take;
    }
  }
  write(parts, num_rows, writer);
  while (!pieces_.empty() && pieces_.front().used == pieces_.front().num_rows) {
    pieces_.pop_front();
  }
  if (pieces_.empty()) {
    writer.set_position(position(span_, span_row_));
  } else {
    writer.set_position(
        position(pieces_.front().span, pieces_.front().row_of(pieces_.front().used)));
  }
  const bool is_at_end =
      span_ >= spans_.size() || (span_ + 1 == spans_.size() && span_row_ == spans_[span_].count);
  return pieces_.empty() && (!has_more || is_at_end);
}

// Reads a whole buffer; false if no buffer has this index.
bool ShardReader::load_buffer(uint64_t number) {
  buffer_pieces_.clear();
  first_of_piece_.assign(1, 0);
  if (number >= num_buffers()) {
    return false;
  }
  const auto size = static_cast<uint64_t>(rules_.shuffle_groups);
  const uint64_t end = std::min<uint64_t>(spans_.size(), (number + 1) * size);
  const auto group_at = [&](uint64_t i) {
    return rules_.random->permute(
        rules_.seed, mix_numbers({stream_, UINT64_MAX}), spans_.size(), i);
  };
  for (uint64_t i = number * size; i < end; ++i) {
    const uint64_t at = group_at(i);
    const RowSpan& span = spans_[at];
    begin_span(at, 0, i + 1 < end ? std::optional(group_at(i + 1)) : std::nullopt);
    RowOrigin origin;
    for (int64_t row = 0; row < span.count;) {
      std::shared_ptr<arrow::RecordBatch> batch = reading_.reader->next(origin);
      if (batch == nullptr) {
        TENON_FAIL(TENON_IO,
                   "columnar.changed",
                   span.file.name,
                   ": row group ",
                   span.group,
                   " ends after row ",
                   span.first + row,
                   " (expected row ",
                   span.first + span.count,
                   ")");
      }
      if (batch->num_rows() > span.count - row) {
        batch = batch->Slice(0, span.count - row);
      }
      row += batch->num_rows();
      Piece piece = make_piece(batch, origin);
      if (piece.num_rows > 0) {
        first_of_piece_.push_back(first_of_piece_.back() + piece.num_rows);
        buffer_pieces_.push_back(std::move(piece));
      }
    }
  }
  reading_ = {};
  return true;
}

bool ShardReader::next_shuffled(int64_t max_rows, BatchWriter& writer) {
  std::vector<std::pair<const Piece*, ElementRange>> parts;
  // A batch may need rows of two buffers. The first must live until the batch is written.
  std::vector<std::vector<Piece>> kept;
  int64_t num_rows = 0;
  bool has_more = true;
  while (num_rows < max_rows) {
    if (!has_buffer_) {
      has_buffer_ = has_more = load_buffer(buffer_);
      if (!has_more) {
        break;
      }
    }
    const int64_t size = first_of_piece_.back();
    const uint64_t order = mix_numbers({stream_, buffer_});
    for (; num_rows < max_rows && buffer_row_ < size; ++num_rows, ++buffer_row_) {
      const auto row = static_cast<int64_t>(rules_.random->permute(
          rules_.seed, order, static_cast<uint64_t>(size), static_cast<uint64_t>(buffer_row_)));
      const auto after = std::upper_bound(first_of_piece_.begin(), first_of_piece_.end(), row);
      const auto p = static_cast<size_t>(after - first_of_piece_.begin()) - 1;
      const int64_t at = row - first_of_piece_[p];
      parts.emplace_back(&buffer_pieces_[p], ElementRange{at, at + 1});
    }
    if (buffer_row_ >= size) {
      kept.push_back(std::move(buffer_pieces_));  // keeps its rows in place
      buffer_pieces_.clear();
      has_buffer_ = false;
      buffer_row_ = 0;
      ++buffer_;
    }
  }
  write(parts, num_rows, writer);
  writer.set_position(position(buffer_, buffer_row_));
  return !has_buffer_ && buffer_ >= num_buffers();
}

bool ShardReader::next(int64_t max_rows, BatchWriter& writer) {
  return rules_.shuffle_groups > 0 ? next_shuffled(max_rows, writer)
                                   : next_in_order(max_rows, writer);
}

}  // namespace tenon
