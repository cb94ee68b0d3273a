// SPDX-License-Identifier: Apache-2.0
#include "source_file.hpp"

#include <algorithm>
#include <arrow/adapters/orc/adapter.h>
#include <arrow/array/util.h>
#include <arrow/csv/reader.h>
#include <arrow/io/compressed.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/reader.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <arrow/util/compression.h>
#include <arrow/util/thread_pool.h>
#include <charconv>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include "arrow_status.hpp"
#include "column.hpp"

namespace tenon {
namespace {

constexpr const char* kUnreadable = "cannot read";

// Parquet's own classes throw exceptions.
template <class Body>
auto guarded(const std::string& file, const Body& body) {
  try {
    return body();
  } catch (const parquet::ParquetException& e) {
    TENON_FAIL(TENON_INVALID, "columnar.read", file, ": ", kUnreadable, ": ", e.what());
  }
}

std::shared_ptr<arrow::io::RandomAccessFile> open_random(const DataFile& file) {
  return value_of(file.file_system->OpenInputFile(stat_file(file)), file.name, "cannot open");
}

std::shared_ptr<arrow::Scalar> partition_scalar(const std::string& value) {
  int64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error == std::errc() && stop == end && !value.empty()) {
    return arrow::MakeScalar(number);
  }
  return arrow::MakeScalar(value);
}

class ParquetFile final : public SourceFile {
 public:
  ParquetFile(DataFile file, const RowFilter& filter) : SourceFile(std::move(file)) {
    guarded(name(), [&] {
      const auto reader = open(nullptr);
      metadata_ = reader->parquet_reader()->metadata();
      check_arrow(reader->GetSchema(&schema_), name(), "cannot read the schema");
      for (int i = 0; i < metadata_->num_row_groups(); ++i) {
        const auto group = metadata_->RowGroup(i);
        if (filter.is_empty() || filter.may_fit(*group)) {
          groups_.push_back({i, group->num_rows()});
        }
      }
    });
  }

  bool fetches_ahead() const override { return true; }

 protected:
  std::shared_ptr<arrow::RecordBatchReader> open_group(int group,
                                                       const std::vector<std::string>& columns,
                                                       int64_t batch_rows) const override {
    return guarded(name(), [&]() -> std::shared_ptr<arrow::RecordBatchReader> {
      std::shared_ptr<parquet::arrow::FileReader> reader = open(metadata_);
      reader->set_batch_size(batch_rows);
      std::vector<int> leaves;
      const auto add = [&](const auto& self, const parquet::arrow::SchemaField& field) -> void {
        if (field.is_leaf()) {
          leaves.push_back(field.column_index);
        }
        for (const parquet::arrow::SchemaField& child : field.children) {
          self(self, child);
        }
      };
      for (const parquet::arrow::SchemaField& field : reader->manifest().schema_fields) {
        if (std::find(columns.begin(), columns.end(), field.field->name()) != columns.end()) {
          add(add, field);
        }
      }
      std::shared_ptr<arrow::RecordBatchReader> batches =
          value_of(reader->GetRecordBatchReader({group}, leaves), name(), kUnreadable);
      // The file's reader produces the batches, so it must outlive them.
      return {batches.get(), [batches, reader](arrow::RecordBatchReader*) {}};
    });
  }

 private:
  std::unique_ptr<parquet::arrow::FileReader> open(
      const std::shared_ptr<parquet::FileMetaData>& metadata) const {
    parquet::arrow::FileReaderBuilder builder;
    parquet::ReaderProperties of_file = parquet::default_reader_properties();
    of_file.set_page_checksum_verification(true);  // of pages that have a checksum
    check_arrow(builder.Open(open_random(file_), of_file, metadata), name(), kUnreadable);
    parquet::ArrowReaderProperties properties(/*use_threads=*/false);
    properties.set_pre_buffer(true);
    builder.properties(properties);
    return value_of(builder.Build(), name(), kUnreadable);
  }

  std::shared_ptr<parquet::FileMetaData> metadata_;
};

class OrcFile final : public SourceFile {
 public:
  explicit OrcFile(DataFile file) : SourceFile(std::move(file)) {
    const auto reader = open();
    schema_ = value_of(reader->ReadSchema(), name(), "cannot read the schema");
    for (int64_t i = 0; i < reader->NumberOfStripes(); ++i) {
      groups_.push_back({static_cast<int>(i), reader->GetStripeInformation(i).num_rows});
    }
  }

 protected:
  std::shared_ptr<arrow::RecordBatchReader> open_group(int group,
                                                       const std::vector<std::string>& columns,
                                                       int64_t /*batch_rows*/) const override {
    const auto reader = open();
    const std::shared_ptr<arrow::RecordBatch> batch =
        value_of(reader->ReadStripe(group, columns), name(), kUnreadable);
    return value_of(arrow::RecordBatchReader::Make({batch}, batch->schema()), name(), kUnreadable);
  }

 private:
  std::unique_ptr<arrow::adapters::orc::ORCFileReader> open() const {
    return value_of(
        arrow::adapters::orc::ORCFileReader::Open(open_random(file_), arrow::default_memory_pool()),
        name(),
        kUnreadable);
  }
};

class FeatherFile final : public SourceFile {
 public:
  explicit FeatherFile(DataFile file) : SourceFile(std::move(file)) {
    auto reader = open({});
    schema_ = reader->schema();
    // The length of one column gives the number of rows of a batch.
    if (schema_->num_fields() > 0) {
      reader = open({schema_->field(0)->name()});
    }
    for (int i = 0; i < reader->num_record_batches(); ++i) {
      groups_.push_back({i, value_of(reader->ReadRecordBatch(i), name(), kUnreadable)->num_rows()});
    }
  }

 protected:
  std::shared_ptr<arrow::RecordBatchReader> open_group(int group,
                                                       const std::vector<std::string>& columns,
                                                       int64_t /*batch_rows*/) const override {
    const std::shared_ptr<arrow::RecordBatch> batch =
        value_of(open(columns)->ReadRecordBatch(group), name(), kUnreadable);
    check_arrow(batch->Validate(), name(), kUnreadable);
    return value_of(arrow::RecordBatchReader::Make({batch}, batch->schema()), name(), kUnreadable);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> open(
      const std::vector<std::string>& columns) const {
    arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
    options.use_threads = false;
    for (const std::string& column : columns) {
      const int field = schema_->GetFieldIndex(column);
      if (field >= 0) {
        options.included_fields.push_back(field);
      }
    }
    return value_of(
        arrow::ipc::RecordBatchFileReader::Open(open_random(file_), options), name(), kUnreadable);
  }
};

class CsvFile final : public SourceFile {
 public:
  CsvFile(DataFile file, const FileOptions& options) : SourceFile(std::move(file)) {
    read_.use_threads = false;
    read_.autogenerate_column_names = !options.header;
    parse_.delimiter = options.separator;
    parse_.newlines_in_values = true;
    convert_.column_types = options.text_types;
    convert_.strings_can_be_null = !options.missing_marks.empty();
    for (const std::string& mark : options.missing_marks) {
      convert_.null_values.push_back(mark);
    }
    schema_ = open({})->schema();
    const int64_t rows = value_of(arrow::csv::CountRowsAsync(arrow::io::default_io_context(),
                                                             open_stream(),
                                                             arrow::internal::GetCpuThreadPool(),
                                                             read_,
                                                             parse_)
                                      .result(),
                                  name(),
                                  kUnreadable);
    groups_.push_back({0, rows});
  }

 protected:
  std::shared_ptr<arrow::RecordBatchReader> open_group(int /*group*/,
                                                       const std::vector<std::string>& columns,
                                                       int64_t /*batch_rows*/) const override {
    return open(columns);
  }

 private:
  std::shared_ptr<arrow::io::InputStream> open_stream() const {
    auto stream =
        value_of(file_.file_system->OpenInputStream(stat_file(file_)), name(), "cannot open");
    const size_t dot = file_.path.rfind('.');
    const std::string ending = dot == std::string::npos ? "" : file_.path.substr(dot + 1);
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
        value_of(arrow::util::Codec::Create(compression), name(), kUnreadable);
    return value_of(
        arrow::io::CompressedInputStream::Make(codec.get(), stream), name(), kUnreadable);
  }

  std::shared_ptr<arrow::csv::StreamingReader> open(const std::vector<std::string>& columns) const {
    arrow::csv::ConvertOptions convert = convert_;
    for (const std::string& column : columns) {
      convert.include_columns.push_back(column);
      if (convert.column_types.count(column) == 0 && schema_ != nullptr) {
        convert.column_types[column] = schema_->GetFieldByName(column)->type();
      }
    }
    return value_of(arrow::csv::StreamingReader::Make(
                        arrow::io::default_io_context(), open_stream(), read_, parse_, convert),
                    name(),
                    kUnreadable);
  }

  arrow::csv::ReadOptions read_ = arrow::csv::ReadOptions::Defaults();
  arrow::csv::ParseOptions parse_ = arrow::csv::ParseOptions::Defaults();
  arrow::csv::ConvertOptions convert_ = arrow::csv::ConvertOptions::Defaults();
};

}  // namespace

int64_t SourceFile::num_rows() const {
  int64_t rows = 0;
  for (const RowGroup& group : groups_) {
    rows += group.rows;
  }
  return rows;
}

void SourceFile::add_partitions() {
  for (const auto& [key, value] : file_.partitions) {
    if (schema_->GetFieldIndex(key) < 0) {
      const auto field = arrow::field(key, partition_scalar(value)->type);
      schema_ = value_of(schema_->AddField(schema_->num_fields(), field), name(), kUnreadable);
    }
  }
}

std::unique_ptr<GroupReader> SourceFile::read(int group,
                                              const std::vector<std::string>& columns,
                                              int64_t first_row,
                                              int64_t batch_rows) const {
  std::vector<std::string> own;
  for (const std::string& column : columns) {
    const bool is_partition =
        std::any_of(file_.partitions.begin(), file_.partitions.end(), [&](const auto& partition) {
          return partition.first == column;
        });
    if (!is_partition || is_own_column_.count(column) > 0) {
      own.push_back(column);
    }
  }
  return std::make_unique<GroupReader>(
      *this, group, open_group(group, own, batch_rows), columns, first_row);
}

GroupReader::GroupReader(const SourceFile& file,
                         int group,
                         std::shared_ptr<arrow::RecordBatchReader> reader,
                         std::vector<std::string> columns,
                         int64_t first_row)
    : file_(file),
      group_(group),
      reader_(std::move(reader)),
      columns_(std::move(columns)),
      first_row_(first_row) {}

std::shared_ptr<arrow::RecordBatch> GroupReader::next(RowPlace& place) {
  while (true) {
    std::shared_ptr<arrow::RecordBatch> batch;
    guarded(file_.name(), [&] {
      check_arrow(reader_->ReadNext(&batch),
                  file_.name(),
                  concat("cannot read row group ", group_, " after row ", at_));
    });
    if (batch == nullptr) {
      return nullptr;
    }
    const int64_t before = at_;
    at_ += batch->num_rows();
    if (at_ <= first_row_ || batch->num_rows() == 0) {
      continue;
    }
    const int64_t skipped = std::max<int64_t>(first_row_ - before, 0);
    batch = skipped > 0 ? batch->Slice(skipped) : batch;
    place = {file_.name(), group_, before + skipped};
    for (const auto& [key, value] : file_.file().partitions) {
      if (batch->schema()->GetFieldIndex(key) < 0 &&
          std::find(columns_.begin(), columns_.end(), key) != columns_.end()) {
        const std::shared_ptr<arrow::Scalar> scalar = partition_scalar(value);
        const auto constant = value_of(
            arrow::MakeArrayFromScalar(*scalar, batch->num_rows()), file_.name(), kUnreadable);
        batch = value_of(
            batch->AddColumn(batch->num_columns(), key, constant), file_.name(), kUnreadable);
      }
    }
    return batch;
  }
}

std::shared_ptr<const SourceFile> open_file(const DataFile& file,
                                            const FileOptions& options,
                                            const RowFilter& filter) {
  std::shared_ptr<SourceFile> opened;
  switch (options.format == FileFormat::kAuto ? format_of(file) : options.format) {
    case FileFormat::kParquet:
      opened = std::make_shared<ParquetFile>(file, filter);
      break;
    case FileFormat::kOrc:
      opened = std::make_shared<OrcFile>(file);
      break;
    case FileFormat::kFeather:
      opened = std::make_shared<FeatherFile>(file);
      break;
    default: {
      FileOptions tabbed = options;
      if (options.separator == ',' && file.path.find(".tsv") != std::string::npos) {
        tabbed.separator = '\t';
      }
      opened = std::make_shared<CsvFile>(file, tabbed);
    }
  }
  for (const auto& field : opened->schema_->fields()) {
    opened->is_own_column_.insert(field->name());
  }
  opened->add_partitions();
  filter.check(*opened->schema(), file.name);
  for (const auto& [key, value] : file.partitions) {
    if (opened->is_own_column_.count(key) == 0 && !filter.fits_partition(key, value)) {
      opened->groups_.clear();
    }
  }
  return opened;
}

}  // namespace tenon
