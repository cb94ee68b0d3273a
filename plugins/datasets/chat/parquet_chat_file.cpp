// SPDX-License-Identifier: Apache-2.0
#include "parquet_chat_file.hpp"

#include <tenon/cpp/stable_file.hpp>

#include <algorithm>
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <cstdint>
#include <exception>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <string_view>
#include <utility>

#include "arrow_json.hpp"
#include "sample_keys.hpp"

namespace tenon {
namespace {

constexpr int64_t kBlockBytes = int64_t{32} << 20;  // of a block, decoded, about
constexpr int64_t kBlockRows = 4096;
constexpr int64_t kReadBytes = int64_t{1} << 20;  // of the file at a time
constexpr int64_t kMaxRows = int64_t{1} << 40;

// The file for Arrow. A read past the end returns fewer bytes, as Arrow expects.
class ArrowInput final : public arrow::io::RandomAccessFile {
 public:
  explicit ArrowInput(const StableFile& file) : file_(file) {}

  arrow::Status Close() override {
    is_closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return is_closed_; }
  arrow::Result<int64_t> Tell() const override { return at_; }
  arrow::Status Seek(int64_t position) override {
    at_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> GetSize() override { return file_.size(); }
  arrow::Result<int64_t> Read(int64_t n, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(at_, n, out));
    at_ += got;
    return got;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t n) override {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, ReadAt(at_, n));
    at_ += buffer->size();
    return buffer;
  }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t n, void* out) override {
    if (position < 0 || n < 0) {
      return arrow::Status::Invalid("a read at position ", position, " of ", n, " bytes");
    }
    n = std::min(n, std::max<int64_t>(file_.size() - position, 0));
    try {
      file_.read(position, static_cast<size_t>(n), static_cast<char*>(out));
    } catch (const Error& error) {  // no exception passes through Arrow
      return arrow::Status::IOError(error.what());
    }
    return n;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t n) override {
    if (position < 0 || n < 0) {
      return arrow::Status::Invalid("a read at position ", position, " of ", n, " bytes");
    }
    n = std::min(n, std::max<int64_t>(file_.size() - position, 0));
    ARROW_ASSIGN_OR_RAISE(std::unique_ptr<arrow::ResizableBuffer> buffer,
                          arrow::AllocateResizableBuffer(n));
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position, n, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(got));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }

 private:
  const StableFile& file_;
  int64_t at_ = 0;
  bool is_closed_ = false;
};

class ParquetChatFile final : public ChatFile {
 public:
  ParquetChatFile(const std::string& path, const IgnoredKeys& ignored)
      : ChatFile(path), file_(std::make_unique<StableFile>(path, "chat")) {
    guarded([&] {
      const auto reader = open();
      metadata_ = reader->parquet_reader()->metadata();
      check(reader->GetSchema(&schema_), path + ": cannot read the schema");
    });
    for (const auto& field : schema_->fields()) {
      if (is_ignored(ignored, field->name())) {
        continue;
      }
      if (is_key_of_samples(field->name())) {
        check_has_json_form(*field->type(), path, field->name());
        columns_.push_back(field->name());
      } else {
        unread_.push_back(field->name());
      }
    }
    find_groups();
  }

  size_t size() const override { return size_; }

  std::string place(size_t i) const override {
    const Group& group = group_of(i);
    return concat(path(), ", row group ", group.number, ", row ", i - group.samples.begin);
  }

  Json keys() const override {
    Json keys = Json::object();
    for (const std::vector<std::string>* const names : {&columns_, &unread_}) {
      for (const std::string& name : *names) {
        keys[name] = nullptr;
      }
    }
    return keys;
  }

  std::vector<std::string> unread_keys() const override { return unread_; }

  // A part is one row group or several.
  std::vector<SampleRange> parts(size_t bytes) const override {
    std::vector<SampleRange> parts;
    int64_t size_of_part = 0;
    for (const Group& group : groups_) {
      if (size_of_part == 0) {
        parts.push_back({group.samples.begin, group.samples.begin});
      }
      parts.back().end = group.samples.end;
      size_of_part += std::max<int64_t>(group.bytes, 1);
      size_of_part = size_of_part >= static_cast<int64_t>(bytes) ? 0 : size_of_part;
    }
    return parts;
  }

  void read_bytes(const std::function<void(std::string_view)>& sink) const override {
    std::string bytes;
    for (int64_t at = 0; at < file_->size(); at += kReadBytes) {
      bytes.resize(static_cast<size_t>(std::min(kReadBytes, file_->size() - at)));
      file_->read(at, bytes.size(), bytes.data());
      sink(bytes);
    }
    file_->check_unchanged(0);
  }

  void read(const SampleRange& part,
            const std::function<void(const SampleBlock&)>& use) const override {
    for (const Group& group : groups_) {
      if (part.begin <= group.samples.begin && group.samples.end <= part.end) {
        read_group(group, use);
      }
    }
  }

  void forget() override {
    metadata_.reset();
    schema_.reset();
    file_.reset();
    groups_ = std::vector<Group>();
  }

 private:
  struct Group {
    int number = 0;
    SampleRange samples;
    int64_t bytes = 0;  // without compression
  };

  // Runs Arrow's code. Parquet's own classes throw exceptions, and sizes in a corrupt file may be
  // more than there is memory.
  template <class Body>
  void guarded(const Body& body) const {
    try {
      body();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      fail(path() + ": cannot read", error.what());
    }
  }

  // A file that changed is reported as such, whatever Arrow makes of it.
  [[noreturn]] void fail(const std::string& what, const std::string& why) const {
    file_->check_unchanged(0);
    TENON_FAIL(TENON_INVALID, "chat.bad_parquet", what, ": ", why);
  }

  void check(const arrow::Status& status, const std::string& what) const {
    if (!status.ok()) {
      fail(what, status.message());
    }
  }

  std::unique_ptr<parquet::arrow::FileReader> open() const {
    parquet::ReaderProperties of_file = parquet::default_reader_properties();
    of_file.set_page_checksum_verification(true);  // of pages that have a checksum
    of_file.enable_buffered_stream();              // a part of a column at a time
    of_file.set_buffer_size(kReadBytes);
    parquet::arrow::FileReaderBuilder builder;
    check(builder.Open(std::make_shared<ArrowInput>(*file_), of_file, metadata_),
          path() + ": cannot read");
    parquet::ArrowReaderProperties properties(/*use_threads=*/false);
    properties.set_pre_buffer(false);
    builder.properties(properties);
    std::unique_ptr<parquet::arrow::FileReader> reader;
    check(builder.Build(&reader), path() + ": cannot read");
    return reader;
  }

  void find_groups() {
    for (int i = 0; i < metadata_->num_row_groups(); ++i) {
      const auto group = metadata_->RowGroup(i);
      const int64_t rows = group->num_rows();
      if (rows < 0 || rows > kMaxRows - static_cast<int64_t>(size_)) {
        fail(concat(path(), ": row group ", i), concat("it has ", rows, " rows"));
      }
      if (rows > 0) {
        const size_t begin = size_;
        size_ += static_cast<size_t>(rows);
        groups_.push_back({i, {begin, size_}, group->total_byte_size()});
      }
    }
  }

  const Group& group_of(size_t i) const {
    const auto after =
        std::upper_bound(groups_.begin(), groups_.end(), i, [](size_t at, const Group& group) {
          return at < group.samples.begin;
        });
    return *(after - 1);
  }

  // The leaves of the columns that samples may have.
  std::vector<int> leaves_of(const parquet::arrow::FileReader& reader) const {
    std::vector<int> leaves;
    const auto add = [&](const auto& self, const parquet::arrow::SchemaField& field) -> void {
      if (field.is_leaf()) {
        leaves.push_back(field.column_index);
      }
      for (const parquet::arrow::SchemaField& child : field.children) {
        self(self, child);
      }
    };
    for (const parquet::arrow::SchemaField& field : reader.manifest().schema_fields) {
      if (std::find(columns_.begin(), columns_.end(), field.field->name()) != columns_.end()) {
        add(add, field);
      }
    }
    return leaves;
  }

  void read_group(const Group& group, const std::function<void(const SampleBlock&)>& use) const {
    const std::string place = concat(path(), ", row group ", group.number);
    const auto num_rows = static_cast<int64_t>(group.samples.end - group.samples.begin);
    if (columns_.empty()) {  // rows of nothing
      use({group.samples, [](size_t) { return Json::object(); }});
      return;
    }
    guarded([&] {
      const std::unique_ptr<parquet::arrow::FileReader> reader = open();
      const int64_t row_bytes = std::max<int64_t>(group.bytes / num_rows, 1);
      reader->set_batch_size(std::clamp<int64_t>(kBlockBytes / row_bytes, 1, kBlockRows));
      std::unique_ptr<arrow::RecordBatchReader> batches;
      check(reader->GetRecordBatchReader({group.number}, leaves_of(*reader)).Value(&batches),
            place + ": cannot read");
      int64_t row = 0;
      while (true) {
        std::shared_ptr<arrow::RecordBatch> batch;
        const std::string after = concat(place, ": cannot read after row ", row);
        check(batches->ReadNext(&batch), after);
        if (batch == nullptr) {
          break;
        }
        check(batch->Validate(), after);
        if (batch->num_rows() > num_rows - row) {
          fail(place, "it has more rows than the footer says");
        }
        file_->check_unchanged(0);
        const size_t begin = group.samples.begin + static_cast<size_t>(row);
        row += batch->num_rows();
        use({{begin, begin + static_cast<size_t>(batch->num_rows())},
             [&](size_t i) { return json_of_row(*batch, static_cast<int64_t>(i - begin)); }});
      }
      if (row != num_rows) {
        fail(place, concat("it has ", row, " rows (expected ", num_rows, ", by the footer)"));
      }
    });
  }

  std::unique_ptr<StableFile> file_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::string> columns_;  // those that are read
  std::vector<std::string> unread_;   // those that nobody reads, though they are not ignored
  std::vector<Group> groups_;         // those with rows
  size_t size_ = 0;
};

}  // namespace

std::unique_ptr<ChatFile> open_parquet_chat_file(const std::string& path,
                                                 const IgnoredKeys& ignored) {
  return std::make_unique<ParquetChatFile>(path, ignored);
}

}  // namespace tenon
