// SPDX-License-Identifier: Apache-2.0
#include "csv_table.hpp"

#include <tenon/cpp/options.hpp>

#include <algorithm>

namespace tenon {
namespace {

constexpr size_t kChunk = size_t{1} << 20;
constexpr size_t kLongestRecord = size_t{1} << 26;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Iterates over the records of a file, reading in chunks.
class RecordReader {
 public:
  RecordReader(const StableFile& file, int64_t offset) : file_(file), offset_(offset) {}

  // False at end of file. The record's fields are valid until the next call.
  bool next(const CsvDialect& dialect) {
    while (true) {
      const std::string_view rest = std::string_view(buffer_).substr(used_);
      const int64_t read_to = offset_ + static_cast<int64_t>(rest.size());
      const bool is_last = read_to == file_.size();
      if (is_last && rest.empty()) {
        return false;
      }
      scan = scan_csv_record(
          rest, is_last ? CsvTextEnd::kIsLast : CsvTextEnd::kMayContinue, dialect, record, problem);
      if (scan != CsvScan::kNeedsMore) {
        record_offset = offset_;
        if (scan == CsvScan::kRecord) {
          used_ += record.size;
          offset_ += static_cast<int64_t>(record.size);
        }
        return true;
      }
      if (rest.size() > kLongestRecord) {
        TENON_FAIL(TENON_INVALID,
                   "csv.too_long",
                   file_.path(),
                   ": the row at offset ",
                   offset_,
                   " exceeds 64 MiB; check for an unclosed quote");
      }
      buffer_.erase(0, used_);
      used_ = 0;
      const size_t held = buffer_.size();
      const size_t more =
          std::min(std::max(kChunk, held), static_cast<size_t>(file_.size() - read_to));
      buffer_.resize(held + more);
      file_.read(read_to, more, buffer_.data() + held);
    }
  }

  int64_t offset() const { return offset_; }

  CsvScan scan = CsvScan::kNeedsMore;
  CsvRecord record;
  CsvProblem problem;
  int64_t record_offset = 0;

 private:
  const StableFile& file_;
  int64_t offset_;  // end of the last record
  std::string buffer_;
  size_t used_ = 0;
};

}  // namespace

CsvTable::CsvTable(const std::string& path, const CsvFormat& format)
    : file_(path, "csv"), format_(format) {
  if (file_.size() == 0) {
    TENON_FAIL(TENON_INVALID, "csv.empty", path, " is empty");
  }
  std::string start(static_cast<size_t>(std::min<int64_t>(file_.size(), 3)), '\0');
  file_.read(0, start.size(), start.data());
  const int64_t first = start == kByteOrderMark ? 3 : 0;
  RecordReader reader(file_, first);
  do {
    if (!reader.next(format_.dialect)) {
      TENON_FAIL(TENON_INVALID, "csv.empty", path, " has only blank lines");
    }
    if (reader.scan == CsvScan::kBad) {
      fail_syntax(reader.problem, reader.record_offset);
    }
  } while (reader.record.fields.empty());
  for (const CsvField& field : reader.record.fields) {
    columns_.push_back(format_.has_header ? csv_field_text(field)
                                          : std::to_string(columns_.size()));
  }
  first_row_ = format_.has_header ? reader.offset() : reader.record_offset;
}

void CsvTable::index_rows(const std::function<RowDecision(const CsvRow&)>& check_row) {
  RecordReader reader(file_, first_row_);
  while (reader.next(format_.dialect)) {
    if (reader.scan == CsvScan::kBad) {
      fail_syntax(reader.problem, reader.record_offset);
    }
    if (reader.record.fields.empty()) {
      continue;
    }
    const CsvRow row{reader.record.fields, reader.record_offset};
    check_width(row);
    if (check_row(row) == RowDecision::kKeep) {
      offsets_.push_back(row.offset);
      sizes_.push_back(static_cast<uint32_t>(reader.record.size));
    }
  }
  file_.check_unchanged(reader.offset());
  offsets_.shrink_to_fit();
  sizes_.shrink_to_fit();
}

void CsvTable::read_rows(const std::vector<int64_t>& numbers,
                         const std::function<void(size_t, const CsvRow&)>& take) const {
  size_t total = 0;
  for (const int64_t number : numbers) {
    total += sizes_[static_cast<size_t>(number)];
  }
  std::string text(total, '\0');
  // Adjacent rows are read with one call.
  size_t done = 0;
  int64_t offset = 0;
  for (size_t i = 0; i < numbers.size();) {
    auto number = static_cast<size_t>(numbers[i]);
    offset = offsets_[number];
    size_t size = sizes_[number];
    for (++i; i < numbers.size(); ++i) {
      number = static_cast<size_t>(numbers[i]);
      if (offsets_[number] != offset + static_cast<int64_t>(size)) {
        break;
      }
      size += sizes_[number];
    }
    file_.read(offset, size, text.data() + done);
    done += size;
  }
  file_.check_unchanged(offset);

  CsvRecord record;
  CsvProblem problem;
  done = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<size_t>(numbers[i]);
    const auto bytes = std::string_view(text).substr(done, sizes_[number]);
    done += bytes.size();
    const CsvScan scan =
        scan_csv_record(bytes, CsvTextEnd::kIsLast, format_.dialect, record, problem);
    if (scan == CsvScan::kBad) {
      fail_syntax(problem, offsets_[number]);
    }
    const CsvRow row{record.fields, offsets_[number]};
    check_width(row);  // a file system without modification times hides changes
    take(i, row);
  }
}

int64_t CsvTable::line_at(int64_t offset) const {
  int64_t line = 1;
  std::string chunk;
  for (int64_t at = 0; at < offset;) {
    chunk.resize(static_cast<size_t>(std::min(offset - at, static_cast<int64_t>(kChunk))));
    file_.read(at, chunk.size(), chunk.data());
    line += std::count(chunk.begin(), chunk.end(), '\n');
    at += static_cast<int64_t>(chunk.size());
  }
  return line;
}

std::string CsvTable::place_of(int64_t offset) const {
  return concat(path(), ":", line_at(offset), ": ");
}

std::string CsvTable::place_of_row(int64_t number) const {
  return concat(path(), ", line ", line_at(offsets_.at(static_cast<size_t>(number))));
}

void CsvTable::fail_syntax(const CsvProblem& problem, int64_t record_offset) const {
  const auto line = line_at(record_offset) + static_cast<int64_t>(problem.line_breaks);
  const size_t column = problem.field;
  const std::string name = column < columns_.size() && format_.has_header
                               ? concat(" (", json_string(columns_[column]), ")")
                               : std::string();
  TENON_FAIL(TENON_INVALID,
             "csv.syntax",
             path(),
             ":",
             line,
             ": column ",
             column,
             name,
             ": ",
             problem.what,
             " (byte ",
             record_offset + static_cast<int64_t>(problem.offset),
             " of the file)");
}

void CsvTable::check_width(const CsvRow& row) const {
  if (row.fields.size() == columns_.size()) {
    return;
  }
  TENON_FAIL(TENON_INVALID,
             "csv.ragged",
             place_of(row.offset),
             "the row has ",
             row.fields.size(),
             row.fields.size() == 1 ? " field, but " : " fields, but ",
             format_.has_header ? "the header has " : "the first row has ",
             columns_.size(),
             row.fields.size() == 1 && columns_.size() > 1 ? "; check `separator`" : "");
}

}  // namespace tenon
