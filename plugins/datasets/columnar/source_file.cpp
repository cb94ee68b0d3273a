// SPDX-License-Identifier: Apache-2.0
#include "source_file.hpp"

#include <algorithm>
#include <arrow/adapters/orc/adapter.h>
#include <arrow/array/array_nested.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/reader.h>
#include <arrow/scalar.h>
#include <arrow/type_traits.h>
#include <functional>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include "arrow_status.hpp"
#include "column.hpp"
#include "csv_file.hpp"
#include "leaf_conversion.hpp"

namespace tenon {
namespace {

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

class ParquetFile final : public SourceFile {
 public:
  explicit ParquetFile(DataFile file) : SourceFile(std::move(file)) {
    guarded(name(), [&] {
      const auto reader = open(nullptr);
      metadata_ = reader->parquet_reader()->metadata();
      check_arrow(reader->GetSchema(&schema_), name(), "cannot read the schema");
      for (int i = 0; i < metadata_->num_row_groups(); ++i) {
        groups_.push_back({i, metadata_->RowGroup(i)->num_rows()});
      }
    });
  }

  bool fetches_ahead() const override { return true; }

 protected:
  void select_groups(const RowFilter& filter) override {
    guarded(name(), [&] {
      groups_.erase(std::remove_if(groups_.begin(),
                                   groups_.end(),
                                   [&](const RowGroup& group) {
                                     return !filter.may_fit(*metadata_->RowGroup(group.number));
                                   }),
                    groups_.end());
    });
  }

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

// Reads the given columns; all if none is given. Without columns, `schema` may be null.
arrow::ipc::IpcReadOptions ipc_options(const std::shared_ptr<arrow::Schema>& schema,
                                       const std::vector<std::string>& columns) {
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  for (const std::string& column : columns) {
    const int field = schema->GetFieldIndex(column);
    if (field >= 0) {
      options.included_fields.push_back(field);
    }
  }
  return options;
}

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
    return value_of(
        arrow::ipc::RecordBatchFileReader::Open(open_random(file_), ipc_options(schema_, columns)),
        name(),
        kUnreadable);
  }
};

// An IPC stream, as Hugging Face datasets writes it. It has no index, so it is read from the start.
class StreamFile final : public SourceFile {
 public:
  explicit StreamFile(DataFile file) : SourceFile(std::move(file)) {
    auto reader = open({});
    schema_ = reader->schema();
    if (schema_->num_fields() > 0) {
      reader = open({schema_->field(0)->name()});
    }
    int64_t rows = 0;
    std::shared_ptr<arrow::RecordBatch> batch;
    while (true) {
      check_arrow(reader->ReadNext(&batch), name(), kUnreadable);
      if (batch == nullptr) {
        break;
      }
      rows += batch->num_rows();
    }
    groups_.push_back({0, rows});
  }

  // True if the file does not begin with the magic bytes of an IPC file, but with a message.
  static bool is_stream(const DataFile& file) {
    const auto input = open_random(file);
    const auto bytes = value_of(input->ReadAt(0, 4), file.name, kUnreadable);
    constexpr uint8_t kMessage[4] = {0xFF, 0xFF, 0xFF, 0xFF};
    return bytes->size() == 4 && std::equal(kMessage, kMessage + 4, bytes->data());
  }

 protected:
  std::shared_ptr<arrow::RecordBatchReader> open_group(int /*group*/,
                                                       const std::vector<std::string>& columns,
                                                       int64_t /*batch_rows*/) const override {
    return open(columns);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> open(
      const std::vector<std::string>& columns) const {
    return value_of(arrow::ipc::RecordBatchStreamReader::Open(open_random(file_),
                                                              ipc_options(schema_, columns)),
                    name(),
                    kUnreadable);
  }
};

// Calls add(path, type) for each field of a struct, or of a list of structs, and for each field
// below it. If several fields have one name, skips the fields below them.
void add_fields_of(
    const arrow::DataType& type,
    const std::function<std::shared_ptr<arrow::DataType>(const std::shared_ptr<arrow::DataType>&)>&
        wrapped,
    const std::vector<std::string>& path,
    const std::function<void(const std::vector<std::string>&,
                             const std::shared_ptr<arrow::DataType>&)>& add) {
  switch (type.id()) {
    case arrow::Type::STRUCT:
      for (const std::shared_ptr<arrow::Field>& field : type.fields()) {
        std::vector<std::string> below = path;
        below.push_back(field->name());
        add(below, wrapped(field->type()));
        if (static_cast<const arrow::StructType&>(type).GetFieldIndex(field->name()) >= 0) {
          add_fields_of(*field->type(), wrapped, below, add);
        }
      }
      return;
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
    case arrow::Type::LIST_VIEW:
    case arrow::Type::LARGE_LIST_VIEW: {
      const auto& list = static_cast<const arrow::BaseListType&>(type);
      add_fields_of(
          *list.value_type(),
          [&](const std::shared_ptr<arrow::DataType>& entry) {
            // plain() makes large lists of views.
            return wrapped(arrow::is_list_view(type.id()) ? arrow::large_list(entry)
                                                          : with_entries(type, entry));
          },
          path,
          add);
      return;
    }
    default:
      return;
  }
}

// The field of a struct, or of the structs in a list, at path[at] and below. Structs without fields
// (type null) stand for the fields.
std::shared_ptr<arrow::Array> field_at(const std::shared_ptr<arrow::Array>& array,
                                       const std::vector<std::string>& path,
                                       size_t at,
                                       const std::string& file) {
  if (at == path.size() || array->type_id() == arrow::Type::NA) {
    return array;
  }
  if (arrow::is_list_view(array->type_id())) {
    return field_at(plain(array), path, at, file);
  }
  if (array->type_id() == arrow::Type::STRUCT) {
    const auto& fields = static_cast<const arrow::StructArray&>(*array);
    const int index = fields.struct_type()->GetFieldIndex(path[at]);
    return field_at(
        value_of(fields.GetFlattenedField(index), file, kUnreadable), path, at + 1, file);
  }
  return with_entries(*array, field_at(entries_of(*array), path, at, file));
}

}  // namespace

int64_t SourceFile::num_rows() const {
  int64_t rows = 0;
  for (const RowGroup& group : groups_) {
    rows += group.rows;
  }
  return rows;
}

void SourceFile::add_struct_fields() {
  arrow::FieldVector fields = schema_->fields();
  for (const std::shared_ptr<arrow::Field>& field : schema_->fields()) {
    if (schema_->GetFieldIndex(field->name()) < 0) {
      continue;  // one of several columns of this name
    }
    add_fields_of(
        *field->type(),
        [](const std::shared_ptr<arrow::DataType>& type) { return type; },
        {field->name()},
        [&](const std::vector<std::string>& path, const std::shared_ptr<arrow::DataType>& type) {
          std::string joined_name;
          for (const std::string& part : path) {
            joined_name += (joined_name.empty() ? "" : ".") + part;
          }
          // The file's own columns come first. Two fields of one path are both added:
          // check_unique() rejects their name.
          if (schema_->GetAllFieldIndices(joined_name).empty() &&
              paths_.emplace(joined_name, path).first->second == path) {
            fields.push_back(arrow::field(joined_name, type));
          }
        });
  }
  schema_ = arrow::schema(std::move(fields), schema_->endianness(), schema_->metadata());
}

void SourceFile::add_null_fields(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!schema_->GetAllFieldIndices(name).empty() || name.find("..") != std::string::npos) {
      continue;
    }
    for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
         dot = name.rfind('.', dot - 1)) {
      const std::string part = name.substr(0, dot);
      const std::shared_ptr<arrow::Field> field = schema_->GetFieldByName(part);
      if (field == nullptr) {
        continue;
      }
      if (shape_of(field->type()).leaf->id() == arrow::Type::NA) {
        const auto known = paths_.find(part);
        std::vector<std::string> path =
            known == paths_.end() ? std::vector<std::string>{part} : known->second;
        path.push_back(name.substr(dot + 1));
        paths_.emplace(name, std::move(path));
        schema_ =
            value_of(schema_->AddField(schema_->num_fields(), arrow::field(name, field->type())),
                     this->name(),
                     kUnreadable);
      }
      break;
    }
  }
}

std::vector<std::string> SourceFile::hidden_folders() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : file_.partitions) {
    if (is_own_column_.count(key) > 0) {
      keys.push_back(key);
    }
  }
  return keys;
}

void SourceFile::add_partitions() {
  for (const auto& [key, value] : file_.partitions) {
    if (schema_->GetAllFieldIndices(key).empty()) {
      TextMeaning meaning;
      meaning.add(value.value_or(""));
      schema_ =
          value_of(schema_->AddField(schema_->num_fields(), untyped_field(key, meaning.meaning())),
                   name(),
                   kUnreadable);
    }
  }
}

std::unique_ptr<GroupReader> SourceFile::read(int group,
                                              const std::vector<std::string>& columns,
                                              int64_t first_row,
                                              int64_t batch_rows) const {
  std::vector<std::string> own;
  for (const std::string& column : columns) {
    const auto path = paths_.find(column);
    const std::string& name = path == paths_.end() ? column : path->second.front();
    if (is_own_column_.count(name) > 0 && std::find(own.begin(), own.end(), name) == own.end()) {
      own.push_back(name);
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

std::shared_ptr<arrow::RecordBatch> GroupReader::next(RowOrigin& origin) {
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
    origin = {file_.name(), group_, before + skipped};
    check_arrow(batch->Validate(), file_.name(), kUnreadable);
    return with_derived_columns(batch);
  }
}

// Adds the requested fields of structs and KEY=VALUE folders.
std::shared_ptr<arrow::RecordBatch> GroupReader::with_derived_columns(
    std::shared_ptr<arrow::RecordBatch> batch) const {
  const auto add = [&](const std::string& name, const std::shared_ptr<arrow::Array>& array) {
    batch = value_of(
        batch->AddColumn(batch->num_columns(), file_.schema()->GetFieldByName(name), array),
        file_.name(),
        kUnreadable);
  };
  for (const std::string& column : columns_) {
    const auto path = file_.paths_.find(column);
    if (path != file_.paths_.end()) {
      add(column,
          field_at(batch->GetColumnByName(path->second.front()), path->second, 1, file_.name()));
      continue;
    }
    const auto& partitions = file_.file().partitions;
    const auto partition = std::find_if(partitions.begin(),
                                        partitions.end(),
                                        [&](const auto& folder) { return folder.first == column; });
    if (partition == partitions.end() || batch->schema()->GetFieldIndex(column) >= 0) {
      continue;
    }
    const std::shared_ptr<arrow::DataType> text = arrow::large_binary();
    add(column,
        value_of(partition->second && !partition->second->empty()
                     ? arrow::MakeArrayFromScalar(
                           arrow::LargeBinaryScalar(arrow::Buffer::FromString(*partition->second)),
                           batch->num_rows())
                     : arrow::MakeArrayOfNull(text, batch->num_rows()),
                 file_.name(),
                 kUnreadable));
  }
  return batch;
}

std::shared_ptr<const SourceFile> open_file(const DataFile& file,
                                            const FileOptions& options,
                                            const RowFilter& filter) {
  std::shared_ptr<SourceFile> opened;
  switch (options.format == FileFormat::kAuto ? format_of(file) : options.format) {
    case FileFormat::kParquet:
      opened = std::make_shared<ParquetFile>(file);
      break;
    case FileFormat::kOrc:
      opened = std::make_shared<OrcFile>(file);
      break;
    case FileFormat::kFeather:
      if (StreamFile::is_stream(file)) {
        opened = std::make_shared<StreamFile>(file);
      } else {
        opened = std::make_shared<FeatherFile>(file);
      }
      break;
    default: {
      FileOptions tabbed = options;
      if (options.separator == "," && file.path.find(".tsv") != std::string::npos) {
        tabbed.separator = "\t";
      }
      opened = std::make_shared<CsvFile>(file, tabbed);
    }
  }
  opened->has_rows_ = opened->num_rows() > 0;
  if (!opened->has_rows_) {
    opened->groups_.clear();
  }
  for (const auto& field : opened->schema_->fields()) {
    opened->is_own_column_.insert(field->name());
  }
  opened->add_struct_fields();
  opened->add_null_fields(options.sources);
  opened->add_partitions();
  if (!opened->has_rows_ || filter.is_empty()) {
    return opened;
  }
  filter.check(*opened->schema(), file.name);
  opened->select_groups(filter);
  for (const auto& [key, value] : file.partitions) {
    if (opened->is_own_column_.count(key) == 0 && !filter.fits_partition(key, value, file.name)) {
      opened->groups_.clear();
    }
  }
  return opened;
}

}  // namespace tenon
