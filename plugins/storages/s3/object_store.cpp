// SPDX-License-Identifier: Apache-2.0
#include "object_store.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <arrow/filesystem/s3fs.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/util/async_generator.h>
#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

namespace tenon {
namespace {

namespace fs = arrow::fs;

void check(const arrow::Status& status, const std::string& key, const char* what) {
  if (!status.ok()) {
    TENON_FAIL(TENON_IO, "s3.failed", "s3://", key, " ", what, ": ", status.message());
  }
}

template <class T>
T value_of(arrow::Result<T> result, const std::string& key, const char* what) {
  check(result.status(), key, what);
  return std::move(result).ValueUnsafe();
}

// Returns a text without the user information of `uri`, for messages: it has the keys. Keys may
// have any characters, so a URI that cannot be parsed ends with its last '@'.
std::string without_keys(std::string text, const std::string& uri) {
  const size_t start = uri.find("://") + 3;
  const size_t end = uri.rfind('@');
  if (uri.find("://") == std::string::npos || end == std::string::npos || end < start) {
    return text;
  }
  const std::string keys = uri.substr(start, end - start);
  for (size_t at = text.find(keys); !keys.empty() && at != std::string::npos;
       at = text.find(keys, at)) {
    text.replace(at, keys.size(), "***");
  }
  return text;
}

// Retries network errors and busy servers after 0.1, 0.2, 0.4 seconds and so on, up to 5.
class BoundedRetry final : public fs::S3RetryStrategy {
 public:
  explicit BoundedRetry(int64_t attempts) : attempts_(attempts) {}

  bool ShouldRetry(const AWSErrorDetail& error, int64_t retries) override {
    return error.should_retry && retries + 1 < attempts_;
  }
  int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, int64_t retries) override {
    return std::min<int64_t>(5000, int64_t{100} << std::min<int64_t>(retries, 10));
  }

 private:
  int64_t attempts_;
};

// Arrow's S3 must be finalized before its libraries, and before its list of clients, which is
// created with the first client. So this handler is registered after the first client exists. All
// plugin instances are destroyed before it runs.
void end_s3_at_exit() {
  static std::once_flag once;
  std::call_once(once, [] { std::atexit([] { fs::EnsureFinalized(); }); });
}

// Arrow requests pages until the server says that there are no more. This ends a listing whose
// pages repeat.
class Listing {
 public:
  arrow::Status add(const std::vector<fs::FileInfo>& page) {
    const size_t before = found_.size();
    for (const fs::FileInfo& info : page) {
      found_.emplace(info.type(), info.base_name());
    }
    is_endless_ = !page.empty() && found_.size() == before;
    return is_endless_ ? arrow::Status::IOError("the server repeats a page of the listing, from ",
                                                page.front().path())
                       : arrow::Status::OK();
  }
  bool is_endless() const { return is_endless_; }

  // Returns the names, sorted.
  std::vector<std::string> names(fs::FileType type) const {
    std::vector<std::string> names;
    for (const auto& [type_of_name, name] : found_) {
      if (type_of_name == type) {
        names.push_back(name);
      }
    }
    return names;
  }

 private:
  std::set<std::pair<fs::FileType, std::string>> found_;
  bool is_endless_ = false;
};

// Arrow requests the pages of an endless listing, with the file system, until S3 is finalized.
void keep_for_ever(const std::shared_ptr<fs::FileSystem>& file_system) {
  static std::mutex mutex;
  static auto* const kept = new std::set<std::shared_ptr<fs::FileSystem>>;
  const std::lock_guard lock(mutex);
  kept->insert(file_system);
}

std::vector<std::string> names_in(const std::shared_ptr<fs::FileSystem>& file_system,
                                  const std::string& folder,
                                  fs::FileType type) {
  fs::FileSelector selector;
  selector.base_dir = folder;
  selector.allow_not_found = true;
  const auto listing = std::make_shared<Listing>();
  const arrow::Status status =
      arrow::VisitAsyncGenerator(
          file_system->GetFileInfoGenerator(selector),
          [listing](const std::vector<fs::FileInfo>& page) { return listing->add(page); })
          .status();
  if (listing->is_endless()) {
    keep_for_ever(file_system);
  }
  check(status, folder, "cannot be listed");
  return listing->names(type);
}

}  // namespace

ObjectWriter::ObjectWriter(const ObjectStore& store,
                           std::string key,
                           std::shared_ptr<arrow::io::OutputStream> stream)
    : store_(store), key_(std::move(key)), stream_(std::move(stream)) {}

ObjectWriter::~ObjectWriter() {
  if (stream_ != nullptr) {
    // Without an abort, destroying the stream would complete the upload. Parts that cannot be
    // aborted are not an object either.
    static_cast<void>(stream_->Abort());
  }
}

void ObjectWriter::write(const void* data, size_t size) {
  TENON_CHECK(stream_ != nullptr, "s3://", key_, " is already closed");
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    // Uploads run in the background; this limits the bytes buffered in memory.
    const uint64_t room = store_.upload_bytes() - (size_ - waited_for_);
    const auto piece = static_cast<size_t>(std::min<uint64_t>(size, room));
    check(stream_->Write(bytes, static_cast<int64_t>(piece)), key_, "cannot be written");
    bytes += piece;
    size -= piece;
    size_ += piece;
    if (size_ - waited_for_ == store_.upload_bytes()) {
      check(stream_->Flush(), key_, "cannot be written");
      waited_for_ = size_;
    }
  }
}

void ObjectWriter::close() {
  TENON_CHECK(stream_ != nullptr, "s3://", key_, " is already closed");
  check(stream_->Close(), key_, "cannot be written");
  stream_ = nullptr;
  const std::optional<uint64_t> size = store_.size_of(key_);
  if (!size || *size != size_) {
    TENON_FAIL(TENON_IO,
               "s3.failed",
               "s3://",
               key_,
               size ? " has " + std::to_string(*size) + " bytes" : " does not exist",
               " after ",
               size_,
               " bytes were written; if the server does not support trailing checksums, set "
               "AWS_REQUEST_CHECKSUM_CALCULATION=when_required in the environment");
  }
}

ObjectStore::ObjectStore(const ObjectStoreOptions& options)
    : upload_bytes_(static_cast<uint64_t>(options.upload_bytes)) {
  check(fs::EnsureS3Initialized(), "", "cannot be initialized");
  arrow::Result<fs::S3Options> parsed = fs::S3Options::FromUri(options.uri, &root_);
  if (!parsed.ok()) {
    TENON_FAIL(TENON_INVALID,
               "s3.bad_uri",
               "\"",
               without_keys(options.uri, options.uri),
               "\" is not a valid s3://BUCKET/PREFIX: ",
               without_keys(parsed.status().message(), options.uri));
  }
  while (!root_.empty() && root_.back() == '/') {
    root_.pop_back();
  }
  if (root_.empty()) {
    TENON_FAIL(TENON_INVALID,
               "s3.bad_uri",
               "\"",
               without_keys(options.uri, options.uri),
               "\" has no bucket name");
  }
  fs::S3Options made = std::move(parsed).ValueUnsafe();
  made.retry_strategy = std::make_shared<BoundedRetry>(options.attempts);
  made.connect_timeout = options.connect_timeout_seconds;
  made.request_timeout = options.timeout_seconds;
  made.background_writes = true;
  made.allow_delayed_open = true;  // small objects need one request only
  file_system_ = value_of(fs::S3FileSystem::Make(made), root_, "cannot be reached");
  end_s3_at_exit();
}

ObjectStore::~ObjectStore() = default;

void ObjectStore::check_bucket() const {
  const std::string bucket = root_.substr(0, root_.find('/'));
  const fs::FileInfo info =
      value_of(file_system_->GetFileInfo(bucket), bucket, "cannot be reached");
  if (info.type() == fs::FileType::NotFound) {
    TENON_FAIL(TENON_NOT_FOUND, "s3.no_bucket", "bucket does not exist: s3://", bucket);
  }
}

std::optional<uint64_t> ObjectStore::size_of(const std::string& key) const {
  const fs::FileInfo info = value_of(file_system_->GetFileInfo(key), key, "cannot be queried");
  if (info.type() != fs::FileType::File) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(info.size());
}

void ObjectStore::put(const std::string& key, std::string_view content) const {
  const std::unique_ptr<ObjectWriter> object = open(key);
  object->write(content.data(), content.size());
  object->close();
}

std::unique_ptr<ObjectWriter> ObjectStore::open(const std::string& key) const {
  return std::make_unique<ObjectWriter>(
      *this, key, value_of(file_system_->OpenOutputStream(key, nullptr), key, "cannot be written"));
}

void ObjectStore::read(const std::string& key, uint64_t offset, void* out, size_t size) const {
  const std::optional<uint64_t> all = size_of(key);
  if (!all) {
    TENON_FAIL(TENON_NOT_FOUND, "s3.no_object", "object does not exist: s3://", key);
  }
  if (offset > *all || size > *all - offset) {
    TENON_FAIL(TENON_DATA_LOSS,
               "s3.short",
               "s3://",
               key,
               " is too short: cannot read ",
               size,
               " bytes at offset ",
               offset,
               ", the object has ",
               *all,
               " bytes");
  }
  fs::FileInfo info(key, fs::FileType::File);
  info.set_size(static_cast<int64_t>(*all));
  const auto file = value_of(file_system_->OpenInputFile(info), key, "cannot be read");
  const int64_t n =
      value_of(file->ReadAt(static_cast<int64_t>(offset), static_cast<int64_t>(size), out),
               key,
               "cannot be read");
  if (static_cast<size_t>(n) != size) {
    TENON_FAIL(TENON_DATA_LOSS,
               "s3.short",
               "s3://",
               key,
               " is too short: it ended at byte ",
               offset + static_cast<uint64_t>(n));
  }
}

std::vector<std::string> ObjectStore::objects_in(const std::string& folder) const {
  return names_in(file_system_, folder, fs::FileType::File);
}

std::vector<std::string> ObjectStore::folders_in(const std::string& folder) const {
  return names_in(file_system_, folder, fs::FileType::Directory);
}

void ObjectStore::remove(const std::string& key) const {
  if (size_of(key)) {
    check(file_system_->DeleteFile(key), key, "cannot be removed");
  }
}

void ObjectStore::remove_folder(const std::string& folder) const {
  const fs::FileInfo info =
      value_of(file_system_->GetFileInfo(folder), folder, "cannot be queried");
  if (info.type() == fs::FileType::Directory) {
    check(file_system_->DeleteDir(folder), folder, "cannot be removed");
  }
}

}  // namespace tenon
