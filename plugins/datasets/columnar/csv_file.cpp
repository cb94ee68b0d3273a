// SPDX-License-Identifier: Apache-2.0
#include "csv_file.hpp"

#include <tenon/cpp/options.hpp>

#include <algorithm>
#include <arrow/builder.h>
#include <arrow/io/compressed.h>
#include <arrow/record_batch.h>
#include <arrow/util/compression.h>
#include <cctype>
#include <string_view>
#include <utility>

#include "../plain_text.hpp"
#include "arrow_status.hpp"

namespace tenon {
namespace {

constexpr size_t kChunk = size_t{1} << 20;
constexpr size_t kLongestRecord = size_t{1} << 30;
constexpr int64_t kMostBatchBytes = int64_t{64} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::shared_ptr<arrow::io::InputStream> open_stream(const DataFile& file) {
  auto stream =
      value_of(file.file_system->OpenInputStream(stat_file(file)), file.name, "cannot open");
  const size_t dot = file.path.rfind('.');
  const std::string ending = dot == std::string::npos ? "" : file.path.substr(dot + 1);
  const auto compression = ending == "gz"    ? arrow::Compression::GZIP
                           : ending == "zst" ? arrow::Compression::ZSTD
                           : ending == "bz2" ? arrow::Compression::BZ2
                           : ending == "lz4" ? arrow::Compression::LZ4_FRAME
                           : ending == "br"  ? arrow::Compression::BROTLI
                                             : arrow::Compression::UNCOMPRESSED;
  if (compression == arrow::Compression::UNCOMPRESSED) {
    return stream;
  }
  std::shared_ptr<arrow::util::Codec> codec =
      value_of(arrow::util::Codec::Create(compression), file.name, kUnreadable);
  return value_of(
      arrow::io::CompressedInputStream::Make(codec.get(), stream), file.name, kUnreadable);
}

// Iterates over the records of a file, without blank lines. Memory is that of the longest record.
class CsvRecords {
 public:
  CsvRecords(const DataFile& file, CsvDialect dialect)
      : file_(file), dialect_(std::move(dialect)), stream_(open_stream(file)) {
    fill();
    check_text();
    if (std::string_view(buffer_).substr(0, kByteOrderMark.size()) == kByteOrderMark) {
      used_ = kByteOrderMark.size();
    }
  }

  // False at the end of the file. The fields of record() are valid until the next call.
  bool next() {
    while (true) {
      const std::string_view rest = std::string_view(buffer_).substr(used_);
      if (is_at_end_ && rest.empty()) {
        return false;
      }
      CsvProblem problem;
      const CsvTextEnd end = is_at_end_ ? CsvTextEnd::kIsLast : CsvTextEnd::kMayContinue;
      const CsvScan scan = scan_csv_record(rest, end, dialect_, record_, problem);
      if (scan == CsvScan::kBad) {
        fail(line_ + static_cast<int64_t>(problem.line_breaks),
             concat("field ", problem.field, ": ", problem.what));
      }
      if (scan == CsvScan::kNeedsMore) {
        if (rest.size() > kLongestRecord) {
          fail(line_, "the row exceeds 1 GiB; check for an unclosed quote");
        }
        fill();
        continue;
      }
      used_ += record_.size;
      record_line_ = line_;
      line_ += static_cast<int64_t>(record_.num_line_breaks);
      if (!record_.fields.empty()) {
        return true;
      }
    }
  }

  const CsvRecord& record() const { return record_; }
  int64_t line() const { return record_line_; }  // of the record's start, from 1

  [[noreturn]] void fail(int64_t line, const std::string& what) const {
    TENON_FAIL(TENON_INVALID, "columnar.read", file_.name, ":", line, ": ", what);
  }

  void check_width(size_t columns) const {
    if (record_.fields.size() != columns) {
      fail(record_line_,
           concat("the row has ",
                  record_.fields.size(),
                  " fields (expected ",
                  columns,
                  "); check `separator`"));
    }
  }

 private:
  // A header may begin with letters that begin another format too, such as "PAR1".
  void check_text() const {
    const std::string_view start = std::string_view(buffer_).substr(0, 64);
    const bool has_control = std::any_of(
        start.begin(), start.end(), [](unsigned char c) { return c < ' ' && !std::isspace(c); });
    const std::string format = has_control ? foreign_format(start) : "";
    if (!format.empty()) {
      TENON_FAIL(TENON_INVALID, "columnar.read", file_.name, " is ", format);
    }
  }

  // Reads more, at least as much as is held, so that a long record is scanned a few times only.
  void fill() {
    buffer_.erase(0, used_);
    used_ = 0;
    const size_t held = buffer_.size();
    buffer_.resize(held + std::max(kChunk, held));
    size_t read = held;
    while (read < buffer_.size()) {
      const int64_t n = value_of(
          stream_->Read(static_cast<int64_t>(buffer_.size() - read), buffer_.data() + read),
          file_.name,
          kUnreadable);
      if (n == 0) {
        is_at_end_ = true;
        break;
      }
      read += static_cast<size_t>(n);
    }
    buffer_.resize(read);
  }

  DataFile file_;
  CsvDialect dialect_;
  std::shared_ptr<arrow::io::InputStream> stream_;
  std::string buffer_;
  size_t used_ = 0;
  bool is_at_end_ = false;
  CsvRecord record_;
  int64_t line_ = 1;
  int64_t record_line_ = 1;
};

// The text of a field, which `unescaped` holds if it has quotes inside.
std::string_view text_of(const CsvField& field, std::string& unescaped) {
  if (!field.is_quoted || field.text.find('"') == std::string_view::npos) {
    return field.text;
  }
  unescaped = csv_field_text(field);
  return unescaped;
}

// The requested columns as texts. An empty text without quotes and the declared marks are nulls.
class CsvBatches final : public arrow::RecordBatchReader {
 public:
  CsvBatches(std::unique_ptr<CsvRecords> records,
             std::shared_ptr<arrow::Schema> schema,
             std::vector<size_t> fields,
             size_t width,
             const std::vector<std::string>& missing_marks,
             int64_t batch_rows)
      : records_(std::move(records)),
        schema_(std::move(schema)),
        fields_(std::move(fields)),
        width_(width),
        missing_marks_(missing_marks),
        batch_rows_(batch_rows) {}

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* out) override {
    std::vector<arrow::LargeBinaryBuilder> builders(fields_.size());
    int64_t rows = 0;
    for (int64_t bytes = 0; rows < batch_rows_ && bytes < kMostBatchBytes && records_->next();
         ++rows) {
      records_->check_width(width_);
      for (size_t i = 0; i < fields_.size(); ++i) {
        const CsvField& field = records_->record().fields[fields_[i]];
        bytes += static_cast<int64_t>(field.text.size());
        ARROW_RETURN_NOT_OK(append(field, builders[i]));
      }
    }
    if (rows == 0) {
      out->reset();
      return arrow::Status::OK();
    }
    std::vector<std::shared_ptr<arrow::Array>> arrays(builders.size());
    for (size_t i = 0; i < builders.size(); ++i) {
      ARROW_RETURN_NOT_OK(builders[i].Finish(&arrays[i]));
    }
    *out = arrow::RecordBatch::Make(schema_, rows, std::move(arrays));
    return arrow::Status::OK();
  }

 private:
  arrow::Status append(const CsvField& field, arrow::LargeBinaryBuilder& builder) const {
    std::string unescaped;
    const std::string_view text = text_of(field, unescaped);
    const bool is_missing =
        (text.empty() && !field.is_quoted) ||
        std::find(missing_marks_.begin(), missing_marks_.end(), text) != missing_marks_.end();
    return is_missing ? builder.AppendNull() : builder.Append(text);
  }

  std::unique_ptr<CsvRecords> records_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<size_t> fields_;
  size_t width_;
  const std::vector<std::string>& missing_marks_;
  int64_t batch_rows_;
};

}  // namespace

CsvFile::CsvFile(DataFile file, const FileOptions& options)
    : SourceFile(std::move(file)),
      dialect_{.separator = options.separator, .is_lenient = true},
      has_header_(options.header),
      missing_marks_(options.missing_marks) {
  CsvRecords records(file_, dialect_);
  std::vector<std::string> names;
  int64_t rows = 0;
  if (records.next()) {
    for (const CsvField& field : records.record().fields) {
      names.push_back(has_header_ ? csv_field_text(field) : concat("f", names.size()));
    }
    rows = has_header_ ? 0 : 1;
  }
  arrow::FieldVector fields;
  for (const std::string& name : names) {
    fields.push_back(untyped_field(name, {}));
  }
  schema_ = arrow::schema(fields);
  const std::set<std::string> inferred =
      options.inferred == nullptr ? std::set<std::string>() : options.inferred(*schema_);
  std::vector<std::pair<size_t, TextMeaning>> meanings;
  for (size_t i = 0; i < names.size(); ++i) {
    if (inferred.count(names[i]) > 0) {
      meanings.emplace_back(i, TextMeaning());
    }
  }
  std::string unescaped;
  const auto infer = [&] {
    for (auto& [i, meaning] : meanings) {
      const std::string_view text = text_of(records.record().fields[i], unescaped);
      if (std::find(missing_marks_.begin(), missing_marks_.end(), text) == missing_marks_.end()) {
        meaning.add(text);
      }
    }
  };
  if (rows == 1) {
    infer();
  }
  for (; !names.empty() && records.next(); ++rows) {
    records.check_width(names.size());
    infer();
  }
  for (const auto& [i, meaning] : meanings) {
    fields[i] = untyped_field(names[i], meaning.meaning());
  }
  schema_ = arrow::schema(fields);
  groups_.push_back({0, rows});
}

std::shared_ptr<arrow::RecordBatchReader> CsvFile::open_group(
    int /*group*/, const std::vector<std::string>& columns, int64_t batch_rows) const {
  auto records = std::make_unique<CsvRecords>(file_, dialect_);
  const auto width = static_cast<size_t>(
      std::count_if(schema_->fields().begin(), schema_->fields().end(), [&](const auto& field) {
        return is_own_column_.count(field->name()) > 0;
      }));
  if (has_header_) {
    records->next();
  }
  std::vector<size_t> indices;
  arrow::FieldVector fields;
  for (const std::string& column : columns) {
    const int index = schema_->GetFieldIndex(column);
    if (index >= 0) {
      indices.push_back(static_cast<size_t>(index));
      fields.push_back(schema_->field(index));
    }
  }
  return std::make_shared<CsvBatches>(std::move(records),
                                      arrow::schema(fields),
                                      std::move(indices),
                                      width,
                                      missing_marks_,
                                      batch_rows);
}

}  // namespace tenon
